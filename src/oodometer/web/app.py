"""The server: pages, and the same as JSON and CSV. It only reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Literal, TypeVar

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, TypeAdapter

import oodometer
from oodometer.engine.stores import StoreError
from oodometer.errors import UserError
from oodometer.web import queries
from oodometer.web.cards import Card, card_of, family_of
from oodometer.web.guard import Guard
from oodometer.web.lines import BoardLine, ResultLine, as_csv, board_lines, result_lines
from oodometer.web.pages import studies
from oodometer.web.pages.others import record_of, show_command
from oodometer.web.site import NotFoundError, Site, resource, style

MetricName = Literal["auroc", "fpr95", "aupr_in", "aupr_out"]
Limit = Annotated[int, Query(ge=1, le=1000, description="No more than this many.")]
Offset = Annotated[int, Query(ge=0, le=10_000_000, description="How many to skip.")]
Name = Annotated[str, Query(max_length=20_000)]


class DetectorLine(BaseModel):
    """A detector that some study has."""

    name: str
    family: str
    studies: int
    mark: str
    card: Card | None


class ArtefactRecord(BaseModel):
    """How a result came about."""

    kind: str
    record: dict[str, object]
    command: str


def create_app(site: Site, hosts: Sequence[str], *, any_address: bool = False) -> FastAPI:
    """The application; it answers only requests to one of `hosts`, see `Guard`."""
    app = FastAPI(
        title="Oodometer",
        version=oodometer.__version__,
        description="Results of out-of-distribution detectors in stores of Oodometer; read-only.",
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
    )
    app.add_middleware(Guard, hosts=frozenset(hosts), any_address=any_address)
    _add_errors(app, site)
    _add_api(app, site)
    _add_pages(app, site)
    return app


def _add_errors(app: FastAPI, site: Site) -> None:
    def answer(request: Request, status: int, title: str, sentence: str) -> Response:
        if request.url.path.startswith("/api/"):
            return JSONResponse({"detail": sentence}, status)
        return HTMLResponse(site.error(title, sentence), status)

    @app.exception_handler(NotFoundError)
    def not_found(request: Request, problem: NotFoundError) -> Response:
        return answer(request, 404, "Not found", str(problem))

    @app.exception_handler(StoreError)
    def unusable(request: Request, problem: StoreError) -> Response:
        return answer(request, 503, "Store not available", "A store cannot be read at the moment.")

    @app.exception_handler(sqlite3.OperationalError)
    def rebuilt(request: Request, problem: sqlite3.OperationalError) -> Response:
        sentence = "The index is being built again: reload the page in a moment."
        return answer(request, 503, "Index not available", sentence)

    @app.exception_handler(UserError)
    def invalid(request: Request, problem: UserError) -> Response:
        return answer(request, 400, "Invalid request", str(problem))

    @app.exception_handler(RequestValidationError)
    def out_of_range(request: Request, problem: RequestValidationError) -> Response:
        first = problem.errors()[0]
        given = str(first.get("input", ""))[:60]
        sentence = f"Parameter '{first['loc'][-1]}': {first['msg']}; got '{given}'."
        return answer(request, 422, "Invalid request", sentence)

    @app.exception_handler(Exception)
    def unexpected(request: Request, problem: Exception) -> Response:
        return answer(request, 500, "Internal error", "This page could not be made.")


def _add_pages(app: FastAPI, site: Site) -> None:
    @app.get("/static/site.css", include_in_schema=False)
    def css() -> Response:
        return Response(style(), media_type="text/css", headers=_KEPT)

    @app.get("/static/site.js", include_in_schema=False)
    def script() -> Response:
        return Response(resource("static/site.js"), media_type="text/javascript", headers=_KEPT)

    @app.get("/studies/{store}/{study}/report", include_in_schema=False)
    def report(store: str, study: str) -> HTMLResponse:
        with site.index.reading() as connection:
            # The page brings a policy of its own, which allows its scripts by their hashes.
            return HTMLResponse(
                studies.report(site, connection, [store, study]),
                headers={"content-security-policy": "frame-ancestors 'none'"},
            )

    @app.get("/{route:path}", include_in_schema=False)
    def page(route: str) -> HTMLResponse:
        return HTMLResponse(site.page(route))


_KEPT = {"cache-control": "max-age=300"}


def _add_api(app: FastAPI, site: Site) -> None:
    @app.get("/api/studies", response_model=list[studies.StudyProgress])
    def list_studies(limit: Limit = 100, offset: Offset = 0) -> Response:
        """Studies of all stores with their progress, the latest first."""
        with site.index.reading() as connection:
            found = queries.studies(site.index, connection)[offset : offset + limit]
            return _json(_STUDIES, studies.progress_of(site, connection, found))

    @app.get("/api/leaderboard", response_model=list[BoardLine])
    def leaderboard(
        metric: MetricName = "auroc",
        ood: Name = "",
        study: Name = "",
        data: Name = "",
        family: Name = "",
        limit: Limit = 200,
        offset: Offset = 0,
    ) -> Response:
        """Detectors of all studies with 95% intervals, the best of each study first."""
        found = board_lines(site, metric, ood, study, data, family)
        return _json(_BOARD, list(islice(found, offset, offset + limit)))

    @app.get("/api/leaderboard.csv", response_class=Response)
    def leaderboard_csv(
        metric: MetricName = "auroc",
        ood: Name = "",
        study: Name = "",
        data: Name = "",
        family: Name = "",
    ) -> StreamingResponse:
        """The same as CSV."""
        lines = board_lines(site, metric, ood, study, data, family)
        return _download("leaderboard.csv", as_csv(BoardLine, lines))

    @app.get("/api/results", response_model=list[ResultLine])
    def results(
        study: Name = "", detector: Name = "", limit: Limit = 200, offset: Offset = 0
    ) -> Response:
        """One line per study, run, detector and outlier set."""
        return _json(_RESULTS, list(result_lines(site, study, detector, limit, offset)))

    @app.get("/api/results.csv", response_class=Response)
    def results_csv(study: Name = "", detector: Name = "") -> StreamingResponse:
        """All results as CSV."""
        return _download("results.csv", as_csv(ResultLine, result_lines(site, study, detector)))

    @app.get("/api/detectors")
    def detectors(limit: Limit = 200, offset: Offset = 0) -> list[DetectorLine]:
        """Detectors that some study has, with their cards if they are built in."""
        cards = site.cards()
        with site.index.reading() as connection:
            known = queries.detectors(site.index, connection)
            found = list(known.items())[offset : offset + limit]
        return [
            DetectorLine(
                name=name,
                family=family_of(name, cards),
                studies=count,
                mark=mark,
                card=card_of(name, cards),
            )
            for name, (count, mark) in found
        ]

    @app.get("/api/artefacts/{store}/{digest}")
    def artefact(store: str, digest: str) -> ArtefactRecord:
        """The record of a result: specification, parents, versions, time."""
        place, kind, record = record_of(site, store, digest)
        command = show_command(place, digest)
        return ArtefactRecord(kind=kind, record=record, command=command)


# Written at once: FastAPI would check each line again, in another thread.
_STUDIES = TypeAdapter(list[studies.StudyProgress])
_BOARD = TypeAdapter(list[BoardLine])
_RESULTS = TypeAdapter(list[ResultLine])
Lines = TypeVar("Lines")


def _json(kind: TypeAdapter[Lines], lines: Lines) -> Response:
    return Response(kind.dump_json(lines), media_type="application/json")


def _download(name: str, lines: Iterator[str]) -> StreamingResponse:
    return StreamingResponse(
        lines,
        media_type="text/csv",
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )
