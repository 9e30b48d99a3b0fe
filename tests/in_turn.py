"""Workers that run one after the other, in one process."""

from twinrun.parallel.workers import Workers


class InTurn(Workers):
    """Keeps what the first worker sends for the others; nothing of theirs comes back to it."""

    def __init__(self, rank, count, sent):
        super().__init__(rank, count)
        self.sent, self.received = sent, 0

    def first(self, value):
        if self.is_first:
            self.sent.append(value)
            return value
        self.received += 1
        return self.sent[self.received - 1]

    def everyones(self, value):
        sent = self.first(value)
        return [value] if self.is_first else [sent, value]
