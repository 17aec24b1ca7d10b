"""Pages that are made from the source are what the source says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.generate_docs import PAGES


@pytest.mark.parametrize("page", sorted(PAGES), ids=lambda page: page.name)
def test_a_page_made_from_the_source_is_up_to_date(page: Path) -> None:
    assert page.read_text() == PAGES[page](), "run python -m tools.generate_docs"
