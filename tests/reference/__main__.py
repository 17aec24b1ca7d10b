"""``python -m tests.reference [PATTERN...]``: print every difference between Apache Kafka and kbroker, readably."""

from __future__ import annotations

import argparse
import fnmatch
import tempfile
from pathlib import Path

from tests.reference.conversation import ask_both
from tests.reference.questions import QUESTIONS
from tests.reference.settings import KBROKER_OPTIONS, kbroker_with_two_directories, start_reference


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patterns", nargs="*", default=["*"], help="which questions, as shell patterns")
    parser.add_argument("--all", action="store_true", help="print the differences that are meant, too")
    parser.add_argument("--transcript", action="store_true", help="print Apache Kafka's answers")
    parser.add_argument("--reference", help="the address of a running Apache Kafka")
    parser.add_argument("--kbroker", help="the address of a running kbroker")
    options = parser.parse_args()
    asked = [each for each in QUESTIONS if any(fnmatch.fnmatchcase(str(each), p) for p in options.patterns)]
    meant = open_differences = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        start_reference(Path(folder), options.reference, directories=2) as reference,
    ):
        broker = None if options.kbroker else kbroker_with_two_directories(Path(folder), *KBROKER_OPTIONS).start()
        try:
            address = options.kbroker or (broker.bootstrap if broker else "")
            for each in asked:
                answers, found, covering = ask_both(each, reference, address)
                if options.transcript:
                    print(each, *answers.items(), sep="\n  ")
                meant, open_differences = meant + len(covering), open_differences + len(found)
                print(*found, sep="\n", end="\n" if found else "")
                if options.all:
                    print(*(f"{each}: {reason}" for reason in sorted({one.reason for one in covering})), sep="\n")
        finally:
            if broker is not None:
                broker.stop()
    print(f"{len(asked)} questions, {open_differences} differences, {meant} more that are meant")


if __name__ == "__main__":
    main()
