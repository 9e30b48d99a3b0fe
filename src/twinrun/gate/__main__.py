"""The command line of the gate: python -m twinrun.gate results/gate.json."""

import sys

from twinrun.gate.gate import main

sys.exit(main())
