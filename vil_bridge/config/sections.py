"""Sections of the configuration that services declare."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, create_model

from vil_bridge.config.base import custom
from vil_bridge.config.references import ReferenceProblem, reference_problems, with_every_actor
from vil_bridge.core.installation import PACKAGE_FOLDERS, package_cure
from vil_bridge.interfaces.services import ServicePlugin, broken_services, services

__all__ = ["Section", "every_problem", "service_sections", "with_service_sections"]

_Model = TypeVar("_Model", bound=BaseModel)


def _none(_config: Mapping[str, Any]) -> Iterable[ReferenceProblem]:
    return ()


@dataclass(frozen=True, slots=True)
class Section:
    """Section of a service.

    Attributes:
        type: of its value, such as ``BatteryConfig | None``.
        field: ``pydantic.Field`` with its default, which leaves the service out, and a description.
        problems: yields what of a whole configuration (plain data, possibly wrong in other ways)
            does not fit together, such as actors that do not exist.
    """

    type: Any
    field: Any
    problems: Callable[[Mapping[str, Any]], Iterable[ReferenceProblem]] = _none


@functools.cache
def service_sections() -> Mapping[str, Section]:
    """Return the services' sections by key of the configuration.

    One whose package is absent or broken refuses every value, in words.
    """
    found = {
        plugin.section or name: _section(plugin)
        for name, plugin in services().items()
        if plugin.config
    }
    return found | {name: _refused(reason) for name, reason in broken_services().items()}


def _section(plugin: ServicePlugin) -> Section:
    try:
        found: Section = import_module(plugin.config).SECTION
    except ModuleNotFoundError as exc:
        package = (exc.name or "").partition(".")[0]
        if package not in PACKAGE_FOLDERS:
            raise
        return _refused(f"the package {package} is not installed: {package_cure(package)}")
    return found


def _refused(reason: str) -> Section:
    """Return a section that refuses every value with a reason."""

    def refuse(value: Any) -> Any:
        if value is not None:
            raise custom(reason)
        return value

    described = Field(default=None, description=f"Not available: {reason}")
    return Section(Annotated[Any, BeforeValidator(refuse)], described)


def with_service_sections(model: type[_Model]) -> type[_Model]:
    """Return a model of a whole configuration with the services' sections behind its own, which
    none of them replaces.
    """
    fields: dict[str, Any] = {
        key: (section.type, section.field)
        for key, section in service_sections().items()
        if key not in model.model_fields
    }
    return create_model(
        model.__name__,
        __base__=model,
        __module__=model.__module__,
        __doc__=model.__doc__,
        **fields,
    )


def every_problem(config: Mapping[str, Any]) -> list[ReferenceProblem]:
    """Return all references of a configuration (plain data, possibly wrong in other ways) that lead
    nowhere, and what the services' sections find.
    """
    config = with_every_actor(config)
    problems = reference_problems(config)
    for section in service_sections().values():
        problems += section.problems(config)
    return problems
