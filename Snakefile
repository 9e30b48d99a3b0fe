# Twinrun: the workflow is workflow/Snakefile, started from here as well.


include: "workflow/Snakefile"


# Snakemake forgets the default target of an included file.
workflow.default_target = "all"
