"""Filter of the offset between two clocks, and of its drift (docs/concepts/timing.md).

The onboard client has the same class, letter by letter, since it is one file: change both.
"""

from __future__ import annotations

import bisect
import collections
import math


class OffsetFilter:
    """Offset between two clocks, and its drift, from the bounds that exchanges of stamps give.

    Each way of an exchange bounds the offset on one side, and the distance of the bounds is the
    round trip. A way takes half of the least round trip and waits beyond that, exponentially
    distributed. Three hypotheses run side by side: the drift stays, the clock is slewed, the clock
    is stepped. Each is a Kalman filter of offset and drift with process noise of its own; each way
    updates them by matching moments. Their likelihoods weigh them (interacting multiple model), and
    the result is their mixture. An exchange that all of them exclude is suspect and left out; three
    that agree prove a step, and the filter starts over with the path and the drift known. While the
    usual waits are unknown, only the bounds of all exchanges together exclude one.

    Attributes:
        epoch: number of steps that started it over.
        count: exchanges since then.
        t_ref_ns: local time of the newest one.
        offset_ns: the offset then.
        drift: change of the offset per local time.
        covariance: of offset and drift: ns^2, ns, 1.
    """

    # By hypothesis: of drift, offset in ns; per sqrt(s).
    _NOISE = ((1e-7, 0.0), (2e-4, 0.0), (1e-7, 1e6))
    _STAY_S = (50.0, 2.0, 0.5)  # mean duration of each hypothesis
    _FIRST = (0.9, 0.05, 0.05)
    _DRIFT_PRIOR = 50e-6
    _KNOWN_DRIFT = 5e-6
    _MOST_DRIFT = 1e-3
    _FLOOR_NS = 20e3
    _LEAST_WAIT_NS = 5e3
    _USUAL = 0.125  # share of both waits that one way waits at least, as a mean
    _WINDOW = 960  # round trips, of which the least counts: a minute at 16 exchanges per second
    # The least of the round trips lies that share of its distance to the 8th above the bound.
    _RANK = 8
    _BEYOND = 0.467
    _MEMORY = 100  # exchanges over which waits are averaged
    _GATE = 5.0
    _AGREE_NS = 1e5
    _PROOF = 3
    _MANY = (
        32  # exchanges from which on the usual waits are known; before, only bounds exclude a clock
    )

    def __init__(self) -> None:
        self.epoch = self.count = self.t_ref_ns = self.offset_ns = 0
        self.drift = 0.0
        self.covariance = (0.0, 0.0, 0.0)
        self._drift_std = self._DRIFT_PRIOR
        # Offset beyond offset_ns, drift, and their covariance, by hypothesis.
        self._states: list[list[float]] = []
        self._weights: list[float] = []
        self._low = self._high = 0.0  # bounds of the offset by all exchanges, beyond offset_ns
        self._waits_ns = [0.0, 0.0]
        self._least_ns = 0  # round trip since the start or restart
        self._window: collections.deque[int] = collections.deque()
        self._ranked: list[int] = []  # the same in order
        self._suspects: list[tuple[int, int, int]] = []

    @property
    def best_rtt_ns(self) -> int:
        """The least round trip of the last minute or so; 0 before the first."""
        if not self._ranked:
            return 0
        return self._ranked[0]

    def offset_at(self, t_ns: int) -> int:
        """Return the offset at a local time."""
        return self.offset_ns + round(self.drift * (t_ns - self.t_ref_ns))

    def uncertainty_at(self, t_ns: int) -> int:
        """Return half the best round trip (a lopsided path is not measurable) plus two standard
        deviations.

        It is at least the distance to the farther bound that the exchanges give together: while
        they are few, waits on one way pull the offset to one side. A step may come with another
        path, as after a vehicle's sleep: only round trips since then count.
        """
        c00, c01, c11 = self.covariance
        dt_ns = float(t_ns - self.t_ref_ns)
        best_ns = max(self.best_rtt_ns, self._least_ns)
        std_ns = max(0.0, c00 + 2.0 * dt_ns * c01 + dt_ns * dt_ns * c11) ** 0.5
        farther_ns = max(self._high, -self._low) + 2.0 * max(0.0, c11) ** 0.5 * abs(dt_ns)
        return int(max(0.5 * best_ns + 2.0 * std_ns, farther_ns))

    def restart(self) -> None:
        """Forget the offset: a clock stepped. The path and the drift are as before."""
        if self.count:
            self._drift_std = max(self._KNOWN_DRIFT, max(0.0, self._states[0][4]) ** 0.5)
        self.epoch += 1
        self.count = 0
        self._suspects = []

    def add(self, t_ns: int, low_ns: int, high_ns: int) -> bool:
        """Account an exchange.

        At ``t_ns`` (local time, its middle) the offset was between the bounds.

        Returns:
            False where the exchange is impossible, or suspect and left out.
        """
        rtt_ns = high_ns - low_ns
        if rtt_ns < 0:
            return False
        if not self.count:
            self._start(t_ns, low_ns, high_ns)
        if t_ns < self.t_ref_ns:  # overtaken by a later one
            moved_ns = round(self.drift * (self.t_ref_ns - t_ns))
            t_ns = self.t_ref_ns
            low_ns = low_ns + moved_ns
            high_ns = high_ns + moved_ns
        self._predict(t_ns)
        base_ns, soft_ns = self._path(rtt_ns)
        low = low_ns - self.offset_ns + 0.5 * base_ns
        high = high_ns - self.offset_ns - 0.5 * base_ns
        excess = min(
            max(low - s[0], s[0] - high) / (s[2] + soft_ns * soft_ns) ** 0.5 for s in self._states
        )
        exchange = (t_ns, low_ns, high_ns)
        slack_ns = self._AGREE_NS + 4.0 * soft_ns - base_ns
        # One with a long way may fit both; only one that excludes the step absolves the clock.
        self._suspects = [s for s in self._suspects if self._agree(s, exchange, slack_ns)]
        if excess > self._GATE and (self.count >= self._MANY or self._excludes(low_ns, high_ns)):
            self._suspects.append(exchange)
            self._mix()
            return len(self._suspects) >= self._PROOF and self._step()
        self._learn(rtt_ns, high, low)
        self._bound(low_ns - self.offset_ns, high_ns - self.offset_ns)
        self._update(low, high, soft_ns)
        self._mix()
        self.count += 1
        return True

    def _start(self, t_ns: int, low_ns: int, high_ns: int) -> None:
        self.t_ref_ns = t_ns
        self.offset_ns = (low_ns + high_ns) // 2
        state = [0.0, self.drift, (0.5 * (high_ns - low_ns)) ** 2, 0.0, self._drift_std**2]
        self._states = [list(state) for _ in self._NOISE]
        self._weights = list(self._FIRST)
        self._low, self._high = low_ns - self.offset_ns, high_ns - self.offset_ns

    def _step(self) -> bool:
        """Start over with the suspects, which agree with each other."""
        suspects = self._suspects
        self.restart()
        for exchange in suspects:
            self.add(*exchange)
        return True

    def _excludes(self, low_ns: int, high_ns: int) -> bool:
        """Return True if the bounds of an exchange leave nothing of those that the others give
        together.
        """
        return low_ns - self.offset_ns > self._high or high_ns - self.offset_ns < self._low

    def _agree(self, a: tuple[int, int, int], b: tuple[int, int, int], slack_ns: float) -> bool:
        """Return True if one clock may have given the bounds of both exchanges."""
        return max(a[1], b[1]) - min(a[2], b[2]) <= slack_ns + self._MOST_DRIFT * abs(a[0] - b[0])

    def _path(self, rtt_ns: int) -> tuple[float, float]:
        """Return the round trip without any wait, and the standard deviation of bounds less half
        of it.
        """
        if not self._ranked:
            return rtt_ns, self._FLOOR_NS + 0.5 * rtt_ns
        least_ns = min(rtt_ns, self._ranked[0])
        n = len(self._ranked)
        beyond_ns = self._BEYOND * (self._ranked[min(n, self._RANK) - 1] - self._ranked[0])
        return max(0.0, least_ns - beyond_ns), self._FLOOR_NS + 0.5 * (beyond_ns + least_ns / n)

    def _learn(self, rtt_ns: int, high: float, low: float) -> None:
        """Account the round trip, and the wait of each way."""
        if self.count:
            self._least_ns = min(self._least_ns, rtt_ns)
        else:
            self._least_ns = rtt_ns
        self._window.append(rtt_ns)
        bisect.insort(self._ranked, rtt_ns)
        if len(self._window) > self._WINDOW:
            del self._ranked[bisect.bisect_left(self._ranked, self._window.popleft())]
        gain = 1.0 / min(len(self._window), self._MEMORY)
        mean = self._merged(self._weights)[0]
        for way, wait_ns in enumerate((high - mean, mean - low)):
            self._waits_ns[way] += gain * (max(0.0, wait_ns) - self._waits_ns[way])

    def _bound(self, low: float, high: float) -> None:
        """Account the bounds.

        Where a slewed clock leaves nothing between them and the others, they stand alone.
        """
        least = max(low, self._low)
        most = min(high, self._high)
        if least > most:
            least = low
            most = high
        self._low = least
        self._high = most

    def _predict(self, t_ns: int) -> None:
        """Mix the hypotheses, as each may have followed on each, and let time pass."""
        dt_ns = float(t_ns - self.t_ref_ns)
        dt_s = 1e-9 * dt_ns
        moved = self.drift * dt_ns
        wider = 2.0 * max(0.0, self.covariance[2]) ** 0.5 * dt_ns
        self._low = self._low + moved - wider
        self._high = self._high + moved + wider
        (a, b, c), (calm, slewed, stepped) = (
            self._weights,
            (math.exp(-dt_s / stay_s) for stay_s in self._STAY_S),
        )
        flows = [
            [a * calm, b * (1.0 - slewed), c * (1.0 - stepped)],
            [0.5 * a * (1.0 - calm), b * slewed, 0.0],
            [0.5 * a * (1.0 - calm), 0.0, c * stepped],
        ]
        self._weights = [max(1e-9, sum(flow)) for flow in flows]
        states = []
        for i, (drift_noise, offset_noise_ns) in enumerate(self._NOISE):
            offset, drift, c00, c01, c11 = self._merged(
                [share / self._weights[i] for share in flows[i]]
            )
            q = drift_noise * drift_noise * dt_s
            c00 += (
                dt_ns * (2.0 * c01 + dt_ns * (c11 + q / 3.0))
                + offset_noise_ns * offset_noise_ns * dt_s
            )
            c01 += dt_ns * (c11 + 0.5 * q)
            states.append([offset + dt_ns * drift, drift, c00, c01, c11 + q])
        self._states = states
        self.t_ref_ns = t_ns

    def _update(self, low: float, high: float, soft_ns: float) -> None:
        """Account both ways in each hypothesis, and weigh them by their likelihoods.

        The density of the two waits, as a function of the offset, is exponential by the difference
        of their rates, and ends at both bounds, which normal noise blurs. A round trip far beyond
        the usual speaks for neither way.
        """
        least_ns = max(self._LEAST_WAIT_NS, self._USUAL * (high - low))
        rates = [1.0 / max(least_ns, wait_ns) for wait_ns in self._waits_ns]
        tilt = rates[0] - rates[1]
        logs = []
        for i, state in enumerate(self._states):
            log = math.log(self._weights[i]) + tilt * state[0] + 0.5 * tilt * tilt * state[2]
            state[0] += state[2] * tilt
            state[1] += state[3] * tilt
            log += self._cut(state, 1.0, high - rates[0] * soft_ns * soft_ns, soft_ns)
            log += self._cut(state, -1.0, -low - rates[1] * soft_ns * soft_ns, soft_ns)
            logs.append(log)
        likelihoods = [math.exp(log - max(logs)) for log in logs]
        total = sum(likelihoods)
        self._weights = [likelihood / total for likelihood in likelihoods]

    def _cut(self, state: list[float], sign: float, edge_ns: float, soft_ns: float) -> float:
        """Account that sign * offset is below the edge, but for normal noise.

        Return the log of the probability.
        """
        variance = state[2] + soft_ns * soft_ns
        std = variance**0.5
        z = (edge_ns - sign * state[0]) / std
        if z > -25.0:
            mass = 0.5 * math.erfc(-z * 0.5**0.5)
            hazard = math.exp(-0.5 * z * z) / ((2.0 * math.pi) ** 0.5 * mass)
            log = math.log(mass)
            bend = hazard * (z + hazard)
        else:  # the same by the asymptotic series of the normal tail
            hazard = -z - 1.0 / z + 2.0 / z**3
            log = -0.5 * z * z - math.log((2.0 * math.pi) ** 0.5 * hazard)
            bend = 1.0 - 1.0 / z**2 + 6.0 / z**4
        k0 = state[2]
        k1 = state[3]
        state[0] -= k0 * sign * hazard / std
        state[1] -= k1 * sign * hazard / std
        # Digits end where nothing was known.
        state[2] = max(1e-12 * k0, k0 - k0 * k0 * bend / variance)
        state[3] -= k0 * k1 * bend / variance
        state[4] -= k1 * k1 * bend / variance
        return log

    def _merged(self, shares: list[float]) -> tuple[float, float, float, float, float]:
        """Return mean and covariance of the hypotheses mixed in these shares."""
        offset = sum(shares[i] * state[0] for i, state in enumerate(self._states))
        drift = sum(shares[i] * state[1] for i, state in enumerate(self._states))
        c00 = c01 = c11 = 0.0
        for i, state in enumerate(self._states):
            d0 = state[0] - offset
            d1 = state[1] - drift
            c00 += shares[i] * (state[2] + d0 * d0)
            c01 += shares[i] * (state[3] + d0 * d1)
            c11 += shares[i] * (state[4] + d1 * d1)
        return offset, drift, c00, c01, c11

    def _mix(self) -> None:
        """Make the mixture of the hypotheses the result."""
        offset, drift, *covariance = self._merged(self._weights)
        whole_ns = round(offset)
        self.offset_ns += whole_ns
        self._low = self._low - whole_ns
        self._high = self._high - whole_ns
        for state in self._states:
            state[0] -= whole_ns
        self.drift = max(-self._MOST_DRIFT, min(self._MOST_DRIFT, drift))
        self.covariance = (covariance[0], covariance[1], covariance[2])
