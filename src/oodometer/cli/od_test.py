"""The command that joins OD-test studies of several sources: od-test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oodometer.cli.common import app, console, open_existing, require_folder, say
from oodometer.errors import UserError, unknown


@app.command("od-test")
def od_test(
    stores: Annotated[
        list[str],
        typer.Argument(help="Stores with finished studies that use the protocol od_test."),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("oodometer-od-test"),
    threshold: Annotated[str, typer.Option(help="exact, or hinge (the published fit).")] = "exact",
    all_pairs: Annotated[
        bool,
        typer.Option(
            "--all-pairs",
            help="Use all pairs of outlier sets, not only those that the paper allows.",
        ),
    ] = False,
) -> None:
    """Run OD-test over several ID data sets: one finished study each, in one or more stores."""
    import numpy as np

    from oodometer import reports
    from oodometer.engine.plan.study_index import studies_in
    from oodometer.engine.work.codecs import bytes_to_table
    from oodometer.lab.data.compatibility import SOURCES, triplets
    from oodometer.protocols.common.learned import judge_learning
    from oodometer.protocols.od_test.protocol import od_test_over_sources
    from oodometer.protocols.od_test.threshold import FITS

    fit = next((known for known in FITS if known == threshold), None)
    if fit is None:
        raise unknown("fit of a threshold", threshold, FITS)
    require_folder(out)
    learned = {}
    for address in stores:
        store = open_existing(address)
        for name, outcome in studies_in(store).items():
            if "od_test" in outcome.study.protocols:
                table = bytes_to_table(store.load("tables", outcome.table_key))
                if table.id in learned:
                    raise UserError(
                        f"Two studies have the source '{table.id}', the second is '{name}': give "
                        "stores with one study per source."
                    )
                study = outcome.study
                learned[table.id] = judge_learning(
                    table, keep=study.keep_unlearned, expected=study.accuracy
                )
    if not learned:
        raise UserError(
            f"No study with the protocol od_test is finished in {', '.join(stores)}; 'oodometer "
            "run od-test-mnist' makes one."
        )
    tables = {name: part.table for name, part in learned.items() if part.table is not None}
    if not tables:
        raise UserError(f"No classifier learned in {', '.join(stores)}.")
    published = [triplet for name in tables if name in SOURCES for triplet in triplets(name)]
    allowed = None if all_pairs or len({t[0] for t in published}) < len(tables) else published
    finding = od_test_over_sources(
        list(tables.values()), np.random.default_rng(0), triplets=allowed, threshold=fit
    )
    for part in learned.values():
        finding = part.tell(finding)
    console().print(reports.terminal(finding))
    title = f"OD-test: {', '.join(tables)}"
    for path in reports.report([finding], out, title=title, formats=reports.DOCUMENTS):
        say(f"report: {path.resolve()}")
