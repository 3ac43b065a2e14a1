"""The site as files: the same pages under the same addresses, every link checked, search and filters in the browser."""

from __future__ import annotations

import functools
import http.server
import json
import threading
from contextlib import contextmanager

import pytest

pytest.importorskip("flask")

from neuron_ops.cli.main import run as command
from neuron_ops.coverage_db.database import open_database, write
from neuron_ops.coverage_db.recorder import finalize_run, record_results, start_run
from neuron_ops.op_tests.records import Build, Case, Denominators, Evidence, Outcome, Part, Result, Route
from site_browser import chromium  # noqa: F401 - a fixture
from site_database import LETTERS, OPERATORS, fill, record_out_form
from site_reading import Page, get, opened, strict


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder with the site as served under /base, and the database it came from."""
    place = tmp_path_factory.mktemp("export")
    fill(place / "x.sqlite")
    record_out_form(place / "x.sqlite")
    folder = place / "www" / "base"
    arguments = [
        "export",
        str(folder),
        "--db",
        str(place / "x.sqlite"),
        "--url",
        "https://example.org/base",
        "--jobs",
        "1",
    ]
    assert command(arguments) == 0
    return folder, place / "x.sqlite"


def test_every_operator_has_its_page_and_its_json(exported):
    folder, database = exported
    with opened(database) as app:
        for op in OPERATORS:
            assert (folder / "op" / op.name / "index.html").is_file()
            file = strict((folder / "op" / f"{op.name}.json").read_text())
            assert file == strict(get(app, f"/op/{op.name}.json"))
    for name in (
        "index.html",
        "ops/index.html",
        "statuses/index.html",
        "static/site.css",
        "sitemap.xml",
        "404.html",
        "ops.csv",
        "badge/core-native.svg",
    ):
        assert (folder / name).stat().st_size > 0, name
    assert "https://example.org/base/op/aten.add.Tensor" in (folder / "sitemap.xml").read_text()


def test_lists_are_whole_as_nobody_answers_a_query(exported):
    folder, _ = exported
    told = strict((folder / "ops.json").read_text())
    assert told["next"] is None
    assert len(told["rows"]) == told["total"] == len([op for op in OPERATORS if not op.excluded])
    letters = {op["name"]: dict(zip(json.loads((folder / "packed.json").read_text())["dtypes"], op["letters"], strict=True))
               for op in json.loads((folder / "packed.json").read_text())["ops"]}  # fmt: skip
    for name, wanted in LETTERS.items():
        assert {dtype: letters[name][dtype] or "–" for dtype in wanted} == wanted


def test_links_stay_under_the_folder_and_no_page_is_pinned(exported):
    folder, _ = exported
    for file in folder.rglob("index.html"):
        for href in Page(file.read_text()).links():
            assert href.startswith(("/base/", "#")), (file, href)
            assert "run=" not in href, (file, href)


def test_a_link_that_leads_nowhere_is_named(tmp_path, capsys):
    database = tmp_path / "x.sqlite"
    fill(database)
    engine = open_database(str(database))
    case = Case("aten.add.Tensor", "float32", "opinfo/x/forward/0")
    build = Build("sim", Evidence.SIMULATED, {"torch": "2.13.0"})
    with write(engine) as conn:
        start = start_run(
            conn, build=build, denominators=Denominators("2.13.0", 1, 1, 1, 1), cases=[case], seed=0, selection="all"
        )
        parts = (Part("aten.nothing.default", Route.NATIVE),)
        record_results(conn, start.run_id, [Result(case.key, Outcome.PASS, Route.TRANSLATED, parts=parts)])
        finalize_run(conn, start.run_id)
    engine.dispose()
    assert command(["export", str(tmp_path / "out"), "--db", str(database), "--jobs", "1"]) == 1
    said = capsys.readouterr().out
    assert "broken: /op/aten.add.Tensor leads to /op/aten.nothing.default" in said
    assert "1 broken links" in said


def test_bad_input_is_one_sentence(exported, tmp_path, capsys):
    folder, database = exported
    assert command(["export", str(folder), "--db", str(database)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert command(["export", str(tmp_path / "new"), "--db", str(database), "--url", "example.org"]) == 2
    assert "is no address of a site" in capsys.readouterr().err


class Files(http.server.SimpleHTTPRequestHandler):
    """A host for files as the usual ones are: /op/x leads to its folder, 404.html answers for what is missing."""

    def send_error(self, code, message=None, explain=None):
        page = (self.root / "base" / "404.html").read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_arguments):
        pass


@pytest.fixture(scope="module")
def host(exported):
    folder, _ = exported
    Files.root = folder.parent
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=str(folder.parent)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/base"
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def tab(browser):
    context = browser.new_context()
    opened_tab, complaints = context.new_page(), []
    opened_tab.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened_tab
    context.close()
    assert complaints == []


def test_search_in_the_browser_opens_the_one_exact_hit_and_lists_others(host, chromium):  # noqa: F811
    with tab(chromium) as page:
        page.goto(f"{host}/")
        page.keyboard.press("/")
        page.keyboard.type("nn.GELU")
        page.keyboard.press("Enter")
        page.wait_for_url(f"{host}/op/aten.gelu.default/")
        assert page.locator("h1").inner_text() == "aten.gelu.default"
        page.goto(f"{host}/search/?q=sort")  # its out= form is another exact hit
        page.wait_for_url(f"{host}/op/aten.sort.default/")
        page.goto(f"{host}/search/?q=soft")
        page.locator("h1", has_text="2 overloads found").wait_for()
        page.goto(f"{host}/op/add")  # no file: the host's page for what is missing finds it
        page.locator("h1", has_text="2 overloads found").wait_for()
        page.goto(f"{host}/op/aten::gelu")
        page.wait_for_url(f"{host}/op/aten.gelu.default/")


@pytest.mark.parametrize(
    "query",
    [
        "status=W",
        "q=softmax",
        "q=status:wrong,timeout",
        "q=softmax+status:crash",
        "dtype=int64&status=U",
        "tag=core",
        "page=2",
        "q=gelu_backward",
    ],
)
def test_filters_in_the_browser_show_what_the_server_would(host, exported, chromium, query):  # noqa: F811
    with opened(exported[1]) as app:
        told = strict(get(app, f"/ops.json?{query}"))
    with tab(chromium) as page:
        page.goto(f"{host}/ops/?{query}")
        page.locator(".shown p a", has_text="Remove all filters").wait_for()
        assert page.locator(".shown strong").inner_text() == str(told["total"])
        names = page.locator(".shown tbody th").all_inner_texts()
        assert sorted(names) == sorted(row["name"] for row in told["rows"])
        letters = page.locator(".shown tbody tr").first.locator("td").all_inner_texts()
        first = next(row for row in told["rows"] if row["name"] == names[0])
        assert letters == [cell["status"] for cell in first["cells"].values()]
