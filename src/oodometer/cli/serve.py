"""The commands for web pages: serve, export."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from oodometer.cli.common import app, open_existing, say
from oodometer.errors import UserError

Stores = Annotated[list[str], typer.Argument(help="Folders, or URLs such as s3://bucket/name.")]
SubmissionFolder = Annotated[
    Path | None, typer.Option(help="Folder with submissions to suites, shown beside the studies.")
]


@app.command()
def serve(
    stores: Stores,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines read.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any free one.")] = 8642,
    submissions: SubmissionFolder = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Further host name under which readers come.")
    ] = None,
) -> None:
    """Show stores as live web pages: studies, leaderboard, detectors, runs. Read-only."""
    for address in stores:
        open_existing(address)
    missing = [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]
    if missing:
        raise UserError(
            f"'oodometer serve' needs {' and '.join(missing)}: pip install 'oodometer[web]'."
        )
    from oodometer.web.server import is_local
    from oodometer.web.server import serve as serve_stores

    if not is_local(host):
        say(
            f"oodometer: warning: everybody who reaches {host} can read these results; there is no "
            "password. The default, 127.0.0.1, lets only this machine read.",
            err=True,
        )
    serve_stores(
        stores,
        host=host,
        port=port,
        submissions=submissions,
        allow=allow_host or (),
        tell=lambda address: say(f"serving {address} (stop with Ctrl-C)"),
        warn=lambda sentence: say(f"oodometer: warning: {sentence}", err=True),
    )


@app.command()
def export(
    stores: Annotated[
        list[str],
        typer.Argument(help="Stores, and last the folder for the site.", metavar="STORE... SITE"),
    ],
    submissions: SubmissionFolder = None,
) -> None:
    """Write the pages of 'serve' as a static site: for any web server, or to open from disk."""
    if len(stores) < 2:
        raise UserError(
            f"Give at least one store and the folder for the site: oodometer export {stores[0]} "
            "SITE."
        )
    *addresses, site = stores
    for address in addresses:
        open_existing(address)
    from oodometer.web.export import export as write_site

    pages = write_site(addresses, Path(site), submissions=submissions)
    say(f"{pages} pages: {(Path(site) / 'index.html').resolve()}")
