"""Find the labels that are probably wrong, say why, and remove what can be removed safely."""

from pmlkit.cleaning.cleaner import LabelCleaner, clean
from pmlkit.cleaning.result import CleaningResult, NoiseRate, NoiseRates

__all__ = ["CleaningResult", "LabelCleaner", "NoiseRate", "NoiseRates", "clean"]
