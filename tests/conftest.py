# SPDX-License-Identifier: Apache-2.0
"""What all tests share: what hangs fails, and a failure is told (failures.py).

A test's setup, the test and its teardown have pytest.ini's `timeout` each. What takes longer fails, with the stacks of all threads, and the next test
runs. A process that cannot even do that (a C library that never returns) prints its stacks and ends, and xdist runs what it had to do in another one,
all but that test.
"""
import faulthandler
import gc
import os
import pathlib
import tempfile

import failures
import patience
import pytest
from pytest_timeout import _get_item_settings

MARGIN = 60  # seconds that a test has to fail by itself
STDERR = pytest.StashKey()
HUNG = pytest.StashKey()  # a file that names the tests whose process has ended


def pytest_configure(config):
    config.pluginmanager.register(failures)
    config.stash[STDERR] = os.dup(2)  # while it is no test's
    told = getattr(config, "workerinput", {}).get("hung")
    if told is None:
        handle, told = tempfile.mkstemp(prefix="nereid-tests-hung-")
        os.close(handle)
        config.add_cleanup(pathlib.Path(told).unlink)
    config.stash[HUNG] = pathlib.Path(told)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """The tests stay, so the collector never looks at them: not while they are made, nor whenever one of them has left garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure(config):
    """A thread that a test has left hanging would keep the process for ever. xdist ends its own processes, which wait for the slowest one."""
    if not hasattr(config, "workerinput"):
        faulthandler.dump_traceback_later(MARGIN, file=config.stash[STDERR], exit=True)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    node.workerinput["hung"] = str(node.config.stash[HUNG])


def limit(item):
    """The time of one part begins. A failure ends the limit that the plugin has set for the whole, so that a teardown would have none."""
    settings = _get_item_settings(item)
    settings = settings._replace(timeout=(settings.timeout or 0) * patience.FACTOR)
    item.ihook.pytest_timeout_cancel_timer(item=item)
    if settings.timeout:
        item.ihook.pytest_timeout_set_timer(item=item, settings=settings)
        faulthandler.dump_traceback_later(settings.timeout + MARGIN, file=item.config.stash[STDERR], exit=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if item.nodeid in item.config.stash[HUNG].read_text().splitlines():
        pytest.fail("it was under way when another process of the tests ended", pytrace=False)
    limit(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    limit(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item):
    limit(item)


class Hangs:
    """In the process that talks to the terminal."""

    def __init__(self, config):
        self.config = config

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem):
        with self.config.stash[HUNG].open("a") as file:
            file.write(f"{crashitem}\n")


def pytest_sessionstart(session):
    if not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(Hangs(session.config))
