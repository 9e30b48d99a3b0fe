"""A tree whose nodes know their parents, as OmegaConf's configurations are, is looked at once."""

from collections.abc import MutableMapping

import pytest

from twinrun import batches
from twinrun.checkpoint.looks import look


class Node(MutableMapping):
    """A mapping whose items know what they lie in."""

    def __init__(self, items, parent=None):
        self.__dict__["_parent"] = parent
        self.__dict__["_content"] = {}
        for key, value in items.items():
            self[key] = value

    def __getitem__(self, key):
        return self._content[key]

    def __setitem__(self, key, value):
        self._content[key] = Node(value, self) if isinstance(value, dict) else value

    def __delitem__(self, key):
        del self._content[key]

    def __iter__(self):
        return iter(self._content)

    def __len__(self):
        return len(self._content)


def tree(sections):
    return Node({f"section{n}": {"width": n, "layers": [1, 2, 3]} for n in range(sections)})


@pytest.mark.parametrize("sections", [20, 100])  # below and above where containers are long
def test_what_refers_back_is_asked_once_and_not_from_each_node(monkeypatch, sections):
    """Red before: 100 nodes were asked 100 times each; a look took a minute at 80 sections."""
    asked, children = [], batches.children

    def counted(value):
        asked.append(value)
        return children(value)

    monkeypatch.setattr(batches, "children", counted)
    look(tree(sections), ())
    # Each node is asked as a node, as an item and in the dictionary that it keeps; so are numbers.
    assert len(asked) < 30 * sections


@pytest.mark.parametrize("sections", [3, 100])
def test_what_changes_in_a_tree_is_seen(sections):
    first, second, third = tree(sections), tree(sections), tree(sections)
    second["section2"]["layers"].append(4)
    third["section1"]["width"] = 7
    assert look(first, ()) == look(tree(sections), ())
    assert len({look(each, ()) for each in (first, second, third)}) == 3
