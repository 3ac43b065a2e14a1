"""The site as it is served to the public: gunicorn with our settings, behind a proxy or not."""

from __future__ import annotations

import http.client
import random

import pytest

pytest.importorskip("gunicorn")

import bench_site
from neuron_ops.web import create_app
from site_database import fill


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("server") / "x.sqlite"
    fill(path)
    return str(path)


def test_gunicorn_serves_the_site_and_counts_over_its_processes(database):
    with bench_site.served(database) as server:

        def ask(address):
            connection = http.client.HTTPConnection("127.0.0.1", server.port)  # a new one: any process may take it
            connection.request("GET", address)
            with connection.getresponse() as answer:
                told = answer.read().decode()
            connection.close()
            return answer.status, told

        for _ in range(20):
            assert ask("/op/aten.add.Tensor")[0] == 200
        status, told = ask("/metrics")
    assert status == 200
    counts = [
        line for line in told.splitlines() if 'seconds_count{method="GET",route="/op/<name>",status="200"}' in line
    ]
    assert [float(line.split()[-1]) for line in counts] == [20.0]


def test_the_benchmark_measures_every_kind_of_request(database):
    address = {"operator": "/op/aten.add.Tensor", "search": "/search.json?q=add", "unchanged (304)": "/ops"}
    kinds = [kind for kind in bench_site.kinds("a", "b") if kind.name in address]
    assert len(kinds) == 3
    with bench_site.served(database) as server:
        for kind in kinds:
            one = bench_site.Kind(kind.name, kind.budget, lambda _, name=kind.name: address[name], kind.status)
            half, most = bench_site.measure(server.port, one, requests=3)
            assert 0 < half <= most
        assert server.cpu_ms() > 0
        wrong = bench_site.Kind("wrong", 1, lambda _: "/ops?colour=red")
        with pytest.raises(AssertionError, match="400"):
            bench_site.ask(server.port, wrong, 0, 1)
    assert bench_site.kinds("a", "b")[0].address(random.Random(0)).startswith("/op/")


def test_behind_a_proxy_the_site_knows_its_public_address(database, monkeypatch):
    told = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "ops.example.org", "X-Forwarded-For": "192.0.2.1"}
    for proxies, root in (("1", "https://ops.example.org"), ("0", "http://localhost")):
        monkeypatch.setenv("NEURON_OPS_SITE_PROXIES", proxies)
        app = create_app(database)
        with app.test_client().get("/robots.txt", headers=told) as response:
            assert f"Sitemap: {root}/sitemap.xml" in response.get_data(as_text=True)
        app.extensions["neuron_ops_engine"].dispose()


def test_a_host_that_is_not_ours_gets_no_page(database, monkeypatch):
    monkeypatch.setenv("NEURON_OPS_SITE_TRUSTED_HOSTS", '["ops.example.org"]')
    app = create_app(database)
    for host, status in (("ops.example.org", 200), ("evil.example.com", 400)):
        with app.test_client().get("/robots.txt", headers={"Host": host}) as response:
            assert response.status_code == status
            assert "evil" not in response.get_data(as_text=True)
    app.extensions["neuron_ops_engine"].dispose()
