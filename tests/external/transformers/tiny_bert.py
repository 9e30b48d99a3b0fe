"""A tiny BERT from a config, fine-tuned on made sentences, as users of transformers write it."""

import pytorch_lightning as pl
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.data import DataLoader
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    get_linear_schedule_with_warmup,
)

WORDS = ["[PAD]", "[UNK]", "good", "bad", "film", "plot", "the", "a", "very", "not", "was", "is"]


class TinyBert(pl.LightningModule):
    def __init__(self, learning_rate: float = 0.001, layers: int = 2):
        super().__init__()
        self.save_hyperparameters()
        config = BertConfig(
            vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=layers, num_attention_heads=2,
            intermediate_size=64, max_position_embeddings=32, num_labels=2,
        )  # fmt: skip
        self.network = BertForSequenceClassification(config)

    def training_step(self, batch, batch_idx):
        outputs = self.network(**batch)
        self.log("train_loss", outputs.loss)
        return outputs.loss

    def validation_step(self, batch, batch_idx):
        outputs = self.network(**batch)
        right = outputs.logits.argmax(1) == batch["labels"]
        self.log("val_accuracy", right.float().mean(), batch_size=len(right))

    def predict_step(self, batch, batch_idx):
        return self.network(**batch)  # a ModelOutput

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.learning_rate)
        steps = self.trainer.estimated_stepping_batches
        schedule = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


class Reviews(pl.LightningDataModule):
    def __init__(self, batch_size: int = 16, num_workers: int = 0):
        super().__init__()
        self.batch_size, self.num_workers = batch_size, num_workers
        words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
        words.pre_tokenizer = pre_tokenizers.Whitespace()
        self.tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]"
        )

    def setup(self, stage):
        draw = torch.Generator().manual_seed(0)
        self.reviews = []
        for _ in range(256):
            length = int(torch.randint(3, 12, (), generator=draw))
            chosen = torch.randint(2, len(WORDS), (length,), generator=draw)
            text = " ".join(WORDS[i] for i in chosen)
            entry = dict(self.tokenizer(text), labels=int("good" in text))
            self.reviews.append(entry)

    def loader(self, reviews, **options):
        collate = DataCollatorWithPadding(self.tokenizer)
        return DataLoader(
            reviews,
            batch_size=self.batch_size,
            num_workers=self.num_workers,
            collate_fn=collate,
            **options,
        )

    def train_dataloader(self):
        return self.loader(self.reviews[:192], shuffle=True)

    def val_dataloader(self):
        return self.loader(self.reviews[192:])

    def predict_dataloader(self):
        return self.loader(self.reviews[192:])
