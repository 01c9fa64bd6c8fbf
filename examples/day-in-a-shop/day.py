"""A day in a shop: train from PostgreSQL, serve, take events and new items, retrain at night, swap if it is safe.

    pip install 'macrid[serve,postgres]'
    MACRID_DATABASE=postgresql://me@localhost/shop python day.py --folder shop/

The tables `items` and `orders` are made up and replaced; use an empty database. Everything else is as in a real shop:
the `macrid` command, the HTTP API, and checks of what has to hold. Exit code 0 if all of it holds.
"""

import argparse
import csv
import json
import os
import random
import shlex
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qs, quote, unquote, urlencode
from urllib.request import Request, urlopen

import psycopg

import macrid
from macrid.data.shop import generate

USERS, ITEMS = 600, 240
DAYS = 60  # of orders
TODAY = 0.03  # share of the interactions that happen today
QUICK = "--device cpu --no-baselines"  # for an example; leave both out in a real shop
SMALL = "--concepts 7 --dim 16 --epochs 40"

ORDERS = "select user_id, item_id, time, kind from orders"
EVENTS = f"{ORDERS} union all select user_id, item_id, time, kind from macrid_events"  # the store of `macrid serve`
CATALOGUE = "select * from items"
PREPARE = "--time-col time --event-col kind --weights view=1,cart=3,purchase=5 --half-life 90 --split stable"
GATE = "ari < .8 or names_kept < .9 or edited_lost > 0 or ndcg_change < -.05"
GATE_FAILED = 3  # the exit code of `macrid diff --fail-if`

NEW_ITEMS = [
    {"item_id": "bag-9001", "title": "Large red leather bag", "category": "bags", "price": 210.0, "size": 48.0},
    {"item_id": "mug-9001", "title": "Giant blue striped mug", "category": "mugs", "price": 12.0, "size": 14.0},
]
BAG, MUG = (item["item_id"] for item in NEW_ITEMS)  # the bag will be sold today, the mug will not


class Wrong(Exception):  # noqa: N818
    """Something that has to hold does not."""


def main() -> None:
    parser = argparse.ArgumentParser(description="A day in a shop, from the first training to the swap at night.")
    parser.add_argument("--database", help="its URL; better set as MACRID_DATABASE, where other users do not see it")
    parser.add_argument("--folder", type=Path, default=Path("day-in-a-shop"), help="where data and runs are kept")
    parser.add_argument("--gate", default=GATE, help="do not swap if this is true of `macrid diff` (%(default)s)")
    options = parser.parse_args()
    database = options.database or os.environ.get("MACRID_DATABASE")
    try:
        check(database, "no database; set MACRID_DATABASE or give --database")
        live(Shop(database, options.folder), options.gate)
    except (Wrong, psycopg.Error, OSError) as error:
        sys.exit(f"error: {str(error).strip().splitlines()[0]}")


def live(shop: "Shop", gate: str) -> None:
    """The day, step by step."""
    say("Yesterday: orders and items are in the database")
    traffic = fill(shop)

    say("Yesterday: the first training, in the end on everybody (--final)")
    shop.macrid("data", "prepare", "--sql", ORDERS, "--items-sql", CATALOGUE, *PREPARE.split(), "--out", "data/day-1")
    shop.macrid("train", "data/day-1", "--final", *f"{SMALL} {QUICK}".split(), "--out", "runs/day-1")
    shop.point_to("day-1")

    with serving(shop) as service:
        say("Morning: customers come")
        post_events(service, traffic)

        say("Noon: new items, and one that is out of stock")
        add_items(shop, service)
        run_out(shop, service)

        say("Afternoon: a person renames a concept, turns a knob and shares the link")
        link, before = share_link(service)

        say("Night: train again, starting from today's run")
        retrain(shop)
        say("Night: a drill: a condition that is always true must stop the swap")
        check(not swap(shop, service, "ari < 1.1", quiet=True), "the gate let a run pass that it should have stopped")
        check(service.get("/readyz")["run"] == "day-1", "a run is served that did not pass the gate")
        say("Night: the real gate, and the swap while customers go on asking")
        with asking(service, list(traffic)) as requests:
            is_swapped = swap(shop, service, gate)
            wait_for(lambda: len(requests.answers) > 50, "customers get no answers")
        check(not requests.failures, f"{len(requests.failures)} requests failed: {requests.failures[:1]}")
        done(f"{len(requests.answers):,} requests meanwhile, none failed")
        if not is_swapped:
            check(service.get("/readyz")["run"] == "day-1", "a run is served that did not pass the gate")
            raise Wrong(f"the gate is closed ({gate}); yesterday's run goes on serving")

        say("Next morning: everything means what it meant yesterday")
        follow_link(service, link, before)
        look_again(shop, service)
    say("Done")


# The shop's own database


class Shop:
    """A database and a folder with data and runs."""

    def __init__(self, database: str, folder: Path) -> None:
        self.database, self.folder = database, folder.absolute()
        self.users, self.out_of_stock = self.folder / "users.csv", self.folder / "out-of-stock.txt"
        (self.folder / "runs").mkdir(parents=True, exist_ok=True)

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.database, autocommit=True)

    def macrid(self, *words: str, allowed: tuple[int, ...] = (0,), quiet: bool = False) -> int:
        """Run a command in the folder; its exit code. The database's URL is in the environment, not in the command."""
        print(f"  $ macrid {shlex.join(words)}", flush=True)
        environment = {**os.environ, "MACRID_DATABASE": self.database}
        command = [sys.executable, "-m", "macrid", *words]
        ended = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        told = [line for line in ended.stderr.splitlines() if not line.startswith("epoch")]
        for line in [] if quiet else [*told, *ended.stdout.splitlines()]:
            print(f"    {line}")
        last = (ended.stderr.strip().splitlines() or [""])[-1]
        check(ended.returncode in allowed, f"macrid {' '.join(words[:2])} ended with {ended.returncode}: {last}")
        return ended.returncode

    def point_to(self, run: str) -> None:
        """Make a run the current one, in one step; a service that is restarted serves it, too."""
        link = self.folder / "runs" / "next"
        link.unlink(missing_ok=True)
        link.symlink_to(run)
        link.replace(link.with_name("current"))


def fill(shop: Shop) -> dict[str, list[str]]:
    """Write the tables up to yesterday; today's items by user."""
    made = generate(users=USERS, items=ITEMS, seed=3).interactions
    columns = ["item_id", *made.table.column_names]
    kinds = {"double": "double precision", "string": "text"}
    types = ["text primary key", *(kinds[str(each)] for each in made.table.schema.types)]
    draw, today, rows = random.Random(0), {}, []
    start = datetime.now(UTC) - timedelta(days=DAYS + 1)
    for user, item in zip(*(positions.tolist() for positions in made.pairs), strict=True):
        user_id, item_id = str(made.users[user]), str(made.items[item])
        if draw.random() < TODAY:
            today.setdefault(user_id, []).append(item_id)
            continue
        seen = start + timedelta(days=DAYS * draw.random())
        rows.append((user_id, item_id, seen, "view"))
        if draw.random() < 0.3:
            rows.append((user_id, item_id, seen + timedelta(minutes=20), "purchase"))
    with shop.connect() as connection:
        connection.execute(
            "drop table if exists items, orders, macrid_events, macrid_users, macrid_erased, macrid_meta"
        )
        connection.execute(f"create table items ({', '.join(map(' '.join, zip(columns, types, strict=True)))})")
        connection.execute("create table orders (user_id text, item_id text, time timestamptz, kind text)")
        with connection.cursor().copy("copy items from stdin") as copy:
            for item, row in zip(made.items, made.table.to_pylist(), strict=True):
                copy.write_row((str(item), *row.values()))
        with connection.cursor().copy("copy orders from stdin") as copy:
            for row in rows:
                copy.write_row(row)
    export_users(shop)
    shop.out_of_stock.write_text("")
    done(f"{ITEMS} items, {len(rows):,} orders of {USERS} users")
    return today


def export_users(shop: Shop) -> None:
    """The histories that the service knows users by, replaced in one step."""
    path = shop.users.with_suffix(".new")
    query = "copy (select distinct user_id, item_id from orders) to stdout with (format csv, header)"
    with shop.connect() as connection, open(path, "wb") as file, connection.cursor().copy(query) as copy:
        for part in copy:
            file.write(part)
    path.replace(shop.users)


# The service


class Service:
    """What `macrid serve` answers."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")

    def get(self, path: str) -> dict:
        return self._ask(Request(self.address + path))

    def send(self, path: str, body: dict, method: str = "POST") -> dict:
        headers = {"content-type": "application/json"}
        return self._ask(Request(self.address + path, json.dumps(body).encode(), headers, method=method))

    def recommend(self, user: str, n: int = 10, **more: object) -> dict:
        return self.send("/v1/recommend", {"user": user, "n": n, **more})

    def listed(self, user: str, n: int = 10) -> list[str]:
        return [item["id"] for item in self.recommend(user, n)["items"]]

    @staticmethod
    def _ask(request: Request) -> dict:
        try:
            with urlopen(request, timeout=60) as response:
                return json.load(response)
        except HTTPError as error:
            reason = json.load(error).get("detail", error.reason)
            raise Wrong(f"{request.get_method()} {request.selector}: {error.code} {reason}") from None


@contextmanager
def serving(shop: Shop):
    """The service, stopped at the end. The URL with the password is in MACRID_EVENTS."""
    words = shlex.split("serve runs/current --users users.csv --exclude-file out-of-stock.txt --workers 2 --port 0")
    print(f"  $ macrid {shlex.join(words)}", flush=True)
    environment = {**os.environ, "MACRID_EVENTS": shop.database}
    with open(shop.folder / "service.log", "wb") as log:
        command = [sys.executable, "-m", "macrid", *words]
        process = subprocess.Popen(
            command, cwd=shop.folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        )
        with process:
            try:
                line = process.stdout.readline()
                check("http://" in line, f"the service did not start; see {log.name}")
                service = Service(line[line.index("http://") :].strip())
                done(f"the service is at {service.address}")
                yield service
            finally:
                process.terminate()
                process.stdout.read()


def post_events(service: Service, traffic: dict[str, list[str]]) -> None:
    """What customers do today; a new customer, too. The next list has it."""
    now = datetime.now(UTC).isoformat()
    user, seen = max(traffic.items(), key=lambda entry: len(entry[1]))
    before = service.listed(user)
    count = 0
    for customer, items in traffic.items():
        events = [{"id": f"today-{n}", "item": item, "time": now, "kind": "view"} for n, item in enumerate(items)]
        answer = service.send(f"/v1/users/{customer}/events", {"events": events})
        check(answer["added"] == len(events), f"{customer}: {answer['added']} of {len(events)} events were added")
        count += len(events)
    answer = service.send(f"/v1/users/{customer}/events", {"events": events})  # as after a timeout
    check(answer["added"] == 0, f"{customer}: events that were sent twice were stored twice")
    after = service.listed(user)
    check(after != before and not {*after} & {*seen}, f"{user}: the list does not know today's events")
    bought = [{"id": f"first-{n}", "item": f"bag-{n:04}", "kind": "purchase"} for n in range(1, 7)]
    service.send("/v1/users/newcomer/events", {"events": bought})
    check(len(service.listed("newcomer")) == 10, "a new customer gets no list")
    done(f"{count:,} events stored; the next list of {user} knows them, and a new customer has one")


def add_items(shop: Shop, service: Service) -> None:
    """New items, for the service at once and for tonight's training; the bag is then bought by some customers."""
    answer = service.send("/v1/items", {"items": [{"id": i["item_id"], **i} for i in map(dict, NEW_ITEMS)]})
    check(not answer["skipped"], f"skipped {answer['skipped']}")
    with shop.connect() as connection:
        for item in NEW_ITEMS:
            marks = ", ".join(["%s"] * len(item))
            connection.execute(f"insert into items ({', '.join(item)}) values ({marks})", [*item.values()])
    wait_for(lambda: everywhere(lambda: BAG in service.listed("newcomer", ITEMS)), f"{BAG} is not recommended")
    lists = service.recommend("newcomer", n=ITEMS)["items"]
    place = [item["id"] for item in lists].index(BAG)
    check(lists[place]["new"], f"{BAG} is not recommended as a new item")
    done(f"{BAG} is in the new customer's list, at place {place + 1}: {lists[place]['placed']}")
    query = "select distinct user_id from orders where item_id = 'bag-0001' order by user_id limit 25"
    with shop.connect() as connection:
        buyers = [user for (user,) in connection.execute(query)]
    for user in buyers:
        service.send(f"/v1/users/{user}/events", {"events": [{"id": f"buy-{BAG}", "item": BAG, "kind": "purchase"}]})


def run_out(shop: Shop, service: Service) -> None:
    """What is out of stock leaves all lists without a restart."""
    first = service.listed("newcomer")[0]
    path = shop.out_of_stock.with_suffix(".new")
    path.write_text(f"{first}\n")
    path.replace(shop.out_of_stock)
    wait_for(lambda: everywhere(lambda: first not in service.listed("newcomer")), f"{first} is still recommended")
    done(f"{first} is out of stock and no longer recommended")


# A link of yesterday


def share_link(service: Service) -> tuple[str, dict]:
    """A link as the studio writes it (?user=…&move=concept.dimension:to:axis:name:concept name&run=…), and its list."""
    card = service.get("/v1/model")
    concept = next(each["concept"] for each in card["concepts"] if each["name"] == "bags")
    service.send(f"/v1/concepts/{concept}", {"name": "handbags"}, "PATCH")
    wait_for(lambda: everywhere(lambda: "handbags" in concept_names(service)), "the new name is not known")
    knob = service.recommend("newcomer", moves=[{"concept": concept, "dimension": "size", "by": 0.0}])["effects"][0]
    larger = round((knob["before"] + knob["range"][1]) / 2, 5)  # half-way to those who have the largest bags
    move = {"concept": concept, "dimension": knob["dimension"], "to": larger}
    answer = service.recommend("newcomer", moves=[move])
    (move,) = answer["moves"]
    parts = (f"{concept}.{move['dimension']}", move["to"], move["axis"], move["name"], move["concept_name"])
    moved = ":".join(quote(str(part), safe="") for part in parts)
    link = f"{service.address}/?" + urlencode({"user": "newcomer", "move": moved, "run": card["run_id"]})
    done(f"{move['concept_name']}, {move['name']}: {link}")
    return link, answer


def follow_link(service: Service, link: str, before: dict) -> None:
    """Yesterday's link in today's run: the same knob of the same concept, without a warning."""
    query = parse_qs(link.partition("?")[2])
    numbers, to, axis, name, concept_name = map(unquote, query["move"][0].split(":"))
    concept, dimension = map(int, numbers.split("."))
    move = {"concept": concept, "dimension": dimension, "to": float(to), "axis": axis, "name": name}
    run = query["run"][0]
    check(run != service.get("/v1/model")["run_id"], "the link was made with this run; nothing is shown by it")
    moves = [{**move, "concept_name": concept_name}]
    answer = service.recommend(query["user"][0], moves=moves, run=run, before=True)
    check(not answer["warnings"], f"the link of yesterday: {answer['warnings']}")
    check(answer["moves"] == before["moves"], f"the link of yesterday became {answer['moves']}")
    knobs = [
        [(each["concept"], each["dimension"], each["name"]) for each in one["effects"]] for one in (before, answer)
    ]
    check(knobs[0] == knobs[1], f"the link of yesterday turned {knobs[0]} and now turns {knobs[1]}")
    sizes = [mean_size(service, answer[name]) for name in ("before", "items")]
    check(sizes[1] > sizes[0], f"the link leads to smaller bags: {sizes[1]:.0f} cm instead of {sizes[0]:.0f} cm")
    done(f"yesterday's link still leads to larger {concept_name}: {sizes[1]:.0f} cm instead of {sizes[0]:.0f} cm")


def concept_names(service: Service) -> list[str]:
    return [concept["name"] for concept in service.get("/v1/model")["concepts"]]


def mean_size(service: Service, items: list[dict]) -> float:
    """Of the bags in a list."""
    found = [service.get(f"/v1/items/{item['id']}")["attributes"] for item in items]
    sizes = [each["size"] for each in found if each["category"] == "bags"]
    check(sizes, "no bag in the list")
    return sum(sizes) / len(sizes)


def look_again(shop: Shop, service: Service) -> None:
    """New items, names and what is out of stock, after the swap."""
    lists = {item["id"]: item for item in service.recommend("newcomer", n=ITEMS)["items"]}
    check(BAG in lists and not lists[BAG].get("new"), f"{BAG} was sold yesterday, but is not a trained item today")
    check(MUG in lists and lists[MUG].get("new"), f"{MUG} is new, but not recommended as such")
    check(shop.out_of_stock.read_text().strip() not in lists, "what is out of stock is recommended again")
    names = concept_names(service)
    check("handbags" in names, f"a name that a person chose is lost: {names}")
    done(f"{BAG} is trained, {MUG} is still new, and what is out of stock stays away")


# The night


def retrain(shop: Shop) -> None:
    """Today's events are in the store of the service, in the same database."""
    prepare = ["data", "prepare", "--sql", EVENTS, "--items-sql", CATALOGUE, *PREPARE.split()]
    shop.macrid(*prepare, "--out", "data/day-2")
    shop.macrid("train", "data/day-2", "--warm-start", "runs/current", "--final", *QUICK.split(), "--out", "runs/day-2")
    trained = {str(item) for item in macrid.load(shop.folder / "runs" / "day-2").items}
    unsold = [item for item in NEW_ITEMS if item["item_id"] not in trained]
    with open(shop.folder / "unsold.csv", "w", newline="") as file:
        table = csv.DictWriter(file, list(NEW_ITEMS[0]))
        table.writeheader()
        table.writerows(unsold)
    if unsold:
        shop.macrid("items", "add", "runs/day-2", "unsold.csv")


def swap(shop: Shop, service: Service, gate: str, quiet: bool = False) -> bool:
    """Serve tonight's run, unless the gate is closed."""
    code = shop.macrid("diff", "runs/current", "runs/day-2", "--fail-if", gate, allowed=(0, GATE_FAILED), quiet=quiet)
    if code == GATE_FAILED:
        done("the gate is closed: yesterday's run goes on serving")
        return False
    shop.point_to("day-2")
    service.send("/v1/reload", {})
    wait_for(lambda: everywhere(lambda: service.get("/readyz")["run"] == "day-2"), "not all processes have swapped")
    done("the service has swapped to day-2")
    return True


class Requests:
    """What customers got while they kept asking."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.failures: list[str] = []


@contextmanager
def asking(service: Service, users: list[str], clients: int = 3):
    """Customers who ask one after the other until the end."""
    requests, stopped = Requests(), threading.Event()

    def ask(number: int) -> None:
        draw = random.Random(number)
        while not stopped.is_set():
            try:
                requests.answers.append(len(service.listed(draw.choice(users))))
            except (Wrong, URLError, OSError, ValueError) as error:
                requests.failures.append(str(error))
            time.sleep(0.02)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield requests
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


# Words


def say(text: str) -> None:
    print(f"\n{text}", flush=True)


def done(text: str) -> None:
    print(f"  {text}", flush=True)


def check(holds: object, otherwise: str) -> None:
    if not holds:
        raise Wrong(otherwise)


def everywhere(condition) -> bool:
    """Whether a condition holds in all processes: one takes a change at once, the others follow within a second."""
    return all(condition() for _ in range(20))


def wait_for(condition, otherwise: str, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"{otherwise} after {seconds:.0f} s")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
