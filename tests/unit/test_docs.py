"""Pages of ``docs/`` that are made from the source are what the source says."""

from __future__ import annotations

import pytest

from tools.generate_docs import DOCS, PAGES


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_made_from_the_source_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text() == PAGES[name](), "run python -m tools.generate_docs"
