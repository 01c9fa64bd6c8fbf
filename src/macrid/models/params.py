"""scikit-learn's conventions for a model's settings: get_params, set_params, and `sklearn.base.clone`."""

from __future__ import annotations

from typing import Any, Self


class Parameters:
    """For a class whose keyword arguments are settings, which its constructor keeps in `given`."""

    settings: Any
    given: dict[str, Any]
    """Keyword arguments of the constructor, as they were given."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All settings by name, with the defaults of those not given, and the preset if there is one.

        deep: without effect; for scikit-learn. A model made of these has every setting fixed, also those that otherwise
        follow from the data; `sklearn.base.clone` leaves these open.
        """
        return {**self.settings.model_dump(), **self.given}

    def set_params(self, **params: Any) -> Self:
        """Change settings, checked as in the constructor; the model is then untrained. Without any, nothing changes."""
        if params:
            other = type(self)(**{**self.given, **params})  # an error leaves this model as it is
            self.__dict__.clear()
            self.__dict__.update(other.__dict__)
        return self

    def __sklearn_clone__(self) -> Self:
        """An untrained model with the same settings."""
        return type(self)(**self.given)
