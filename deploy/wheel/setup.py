# SPDX-License-Identifier: Apache-2.0
"""The wheel is for every Python of one kind of machine. scripts/make_wheel.py runs this where the built files lie beside it; metadata is in pyproject.toml."""
import setuptools
from setuptools.command.bdist_wheel import bdist_wheel


class BuiltDistribution(setuptools.Distribution):
    def has_ext_modules(self):
        return True


class WheelForEachPython(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setuptools.setup(distclass=BuiltDistribution, cmdclass={"bdist_wheel": WheelForEachPython})
