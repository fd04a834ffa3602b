"""The heat of one account, for suites that compare stores and formulas with it."""

from stoker.heat.heat import compute_heats


def compute_heat(heat, signals=(), *, posture=None, **rules):
    """Return an account's heat after these signals and this posture."""
    postures = {} if posture is None else {heat.account: posture}
    [after] = compute_heats([heat], signals={heat.account: signals}, postures=postures, **rules)
    return after
