r"""ReLU on inputs that overlap between classes, too: one neuron's averages, given its fields s_c = a·t_c.

K0 has one diagonal and one overlap ρ_c within every class, and one overlap ρ_b between any two. A neuron's
preactivations are

    z_μ = √ρ_b u + √(ρ_c − ρ_b) v_c + √(K0_μμ − ρ_c) ξ_μ ,   u, v_c, ξ_μ standard normal,

so that its classes are independent given u, which all of them share:

    log g(s) = log E_u Π_c A_c(s_c, u),   A_c(s, u) = E_v [E_ξ e^{sφ(√ρ_b u + √(ρ_c−ρ_b) v + …)}]^{n_c} .

**Far fields.** A neuron that is active on class c and silent on all others has log g → ½ n_c κ_c s_c², with
κ_c = K0_μμ − ρ_c + n_c V_c and V_c the variance of the mean of class c, given that all inputs of the others
stand at 0: the shared part u pulls them up, and that they stay below costs more, the larger s_c is. At
ρ_b = 0, V_c = ρ_c.

Tables over s and u serve the bulk; along a branch the active class is integrated around where it is.
"""

from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import log_ndtr

from coding_schemes.networks import nonlinearity as resolve
from coding_schemes.tasks import Task
from coding_schemes.theory import _convex_dual, clustered
from coding_schemes.theory._class_tables import mean_fourth, piecewise_moments, shape
from coding_schemes.theory._solvers import class_sums
from coding_schemes.theory._tilted import normalized

_REACH = 9.0  # standard deviations that are integrated over
_SPACING = 0.7  # of nodes, in standard deviations of what is integrated over once all inputs are given
_STEP = 0.04  # of tables, in arcsinh of the field
_MOST_NEGATIVE = 200.0  # field of the tables; beyond it a silent class is as silent as there
_FIRST, _LARGEST = 16.0, 300.0  # u of the smallest tables, and of any
_ACTIVE = 7.0  # standard deviations above 0, where no input is silent
_TINY = 1e-280  # of a sum: what lies below double precision beside it is not yet zero
_BULK = 14.0  # standard deviations of readouts that the bulk's tables reach


def overlaps(task: Task) -> tuple[np.ndarray, np.ndarray, float] | None:
    """ρ_c and K0_μμ of every class, (C,) each, and ρ_b > 0; None where K0 has another form (to 1e-10)."""
    means, diagonal = task.mean_overlaps
    within = np.diag(means)
    sums, counts = class_sums(task.input_kernel, task), task.class_counts
    pairs = task.num_inputs**2 - np.sum(counts**2)
    between = float((sums.sum() - np.trace(sums)) / max(pairs, 1))
    if not clustered.FORM_TOLERANCE * diagonal.max() < between < within.min() or np.any(within >= diagonal):
        return None
    return (within, diagonal, between) if clustered.is_of_form(task, within, diagonal, between) else None


def make_problem(task: Task, temperature: float, readout_variance: float | None) -> clustered.Problem:
    """The checked problem behind a task of this form."""
    counts, targets, variance = _convex_dual.classes(task, temperature, readout_variance)
    found = overlaps(task)
    assert found is not None
    site = Site(counts, *found)
    known = counts, targets, float(temperature), variance, "relu", site, site.stiffness
    return clustered.Problem(*known, *found[:2], between=found[2])


class _Table(NamedTuple):
    """Over the arcsinh of the field, at nodes of u."""

    log_a: CubicSpline  # (U,)
    mean: CubicSpline  # of φ, (U,)
    averages: CubicSpline  # three more, (3, U)
    scatter: CubicSpline  # the variance between inputs, (U,)


def _over_latent(log_g, columns, log_weight, across=0.0):
    """Log A (k, U) and averages over a latent m: of columns (k, j, M), (k, j, U), and of `across` (U, M).

    For log g (k, M) and log weights (U, M) of m. One product of matrices serves all fields but those whose
    sums leave the range of doubles.
    """
    shift, weight = log_g.max(axis=1, keepdims=True), np.exp(log_weight).T
    terms = np.exp(log_g - shift)
    total = terms @ weight
    with np.errstate(divide="ignore", invalid="ignore"):
        log_a, averages = shift + np.log(total), (columns * terms[:, None]) @ weight / total[:, None]
        of_across = terms @ (weight * np.transpose(across)) / total
    for k in np.flatnonzero(total.min(axis=1) < _TINY):
        log_a[k], weights = normalized(log_g[k] + log_weight)
        averages[k], of_across[k] = columns[k] @ weights.T, np.sum(weights * across, axis=1)
    return log_a, averages, of_across


class Site:
    """Averages over one neuron's preactivations.

    Args:
        counts: n_c, shape (C,).
        within: ρ_c, shape (C,).
        diagonal: K0_μμ of every class, shape (C,).
        between: ρ_b, above 0 and below every ρ_c.
    """

    phi, shape = resolve("relu"), shape("relu")

    def __init__(self, counts: np.ndarray, within: np.ndarray, diagonal: np.ndarray, between: float):
        self.counts, self.between = counts, between
        self.own, self.noise = within - between, diagonal - within  # variances of v's and of ξ's part
        self.step = _SPACING / np.sqrt(1 / self.own + counts / self.noise)  # of nodes of a class's latent
        self.u_step = _SPACING / np.sqrt(1 + np.sum(between / (self.own + self.noise / counts)))
        covariance = between + np.diag(self.own)
        at_zero = np.diag(self.noise / counts)
        inverses = []
        for c in range(len(counts)):
            free = at_zero.copy()
            free[c, c] = 0
            inverses.append(np.linalg.inv(covariance + free)[c])
        self.variances = 1 / np.array([row[c] for c, row in enumerate(inverses)])  # V_c
        # q of every class: ∂V_c/∂Σ = q qᵀ for the covariance Σ of the class means
        self.along = np.array(inverses) * self.variances[:, None]
        # u on average, per unit of the mean of class c
        self.pulls = np.sqrt(between) * self.along.sum(axis=1)
        self.stiffness = self.noise + counts * self.variances  # κ_c
        self.largest = _BULK / np.sqrt(np.min(counts * self.stiffness))
        self._tables: dict[tuple, _Table] = {}

    # ---- the bulk ---------------------------------------------------------------------------------

    def averages(self, fields: np.ndarray, slopes: bool = False) -> clustered.Averages:
        """At fields (k, C) of the bulk; FloatingPointError beyond the tables."""
        rows, p, log_g = self._bulk(fields)
        means, shared, squares, fourths = (np.einsum("ku,cku->kc", p, rows[:, :, k]) for k in range(1, 5))
        products = np.einsum("ku,cku,dku->kcd", p, rows[:, :, 1], rows[:, :, 1])
        found = clustered.Averages(log_g, means, shared, squares, fourths, products)
        if not slopes:
            return found
        scatter = rows[:, :, 3] - rows[:, :, 2]
        centered = (rows[:, :, 1] - means.T[:, :, None]) * self.counts[:, None, None]
        by_u = np.einsum("ku,dku,cku->kdc", p, scatter, centered)
        for c, s in enumerate(fields.T):
            by_u[:, c, c] += np.sum(p * self._scatter_slope(c, s), axis=-1)
        return found._replace(slopes=by_u)

    def variance_slopes(
        self, fields: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """∂ log Z/∂ of the variances of u's part, of v's (C,), and of ξ's (C,), at fields of these weights.

        With ⟨·⟩ of the tilted neurons, (⟨x²⟩/v − 1)/2v for each Gaussian x of variance v.
        """
        _, p, _ = self._bulk(fields)
        u = self._nodes(_FIRST)
        slopes: list = []
        tables: dict = {}
        for c, s in enumerate(fields.T):
            if (kind := self._kind(c)) not in tables:
                tables[kind] = self._slope_table(c)
            slopes.append(np.einsum("k,ku,kru->r", weights, p, tables[kind](self._place(c, s))))
        shared = 0.5 * float((weights @ p) @ u**2 - 1) / self.between
        return shared, *np.transpose(slopes)

    def _slope_table(self, c):
        """Over the arcsinh of the field: ∂ log A/∂ of the variances of v's and ξ's parts, (2, U)."""
        n, own, sigma = self.counts[c], self.own[c], np.sqrt(self.noise[c])
        u, x, m = self._lattice(c, _FIRST)
        log_weight = self._log_latent(c, m, u[:, None])
        of_v = 0.5 * ((m - np.sqrt(self.between) * u[:, None]) ** 2 / own - 1) / own
        s = self._scale(c) * np.sinh(x)[:, None]
        shift = s * sigma
        silent, active = -m / sigma, m / sigma + shift  # ends of the two halves, from their middles
        log_silent, log_active = log_ndtr(silent), s * m + 0.5 * shift**2 + log_ndtr(active)
        log_g = np.logaddexp(log_silent, log_active)
        share = np.exp(log_active - log_g)
        off, on = (np.exp(-0.5 * z**2 - log_ndtr(z)) / np.sqrt(2 * np.pi) for z in (silent, active))
        square = (1 - share) * (1 - silent * off) + share * (1 - active * on + 2 * shift * on + shift**2)
        _, of_noise, of_own = _over_latent(n * log_g, square[:, None], log_weight, of_v)
        return CubicSpline(x, np.stack([of_own, 0.5 * n * (of_noise[:, 0] - 1) / sigma**2], axis=1))

    def _bulk(self, fields):
        """Rows of the tables (C, k, 5, U), density of u (k, U), and log g (k,)."""
        rows = np.stack([self._at(c, s) for c, s in enumerate(fields.T)])
        log_g, p = self._over_u(rows[:, :, 0].sum(0))
        return rows, p, log_g

    def _over_u(self, log_a):
        """Log g (k,) and density of u (k, U), of Σ log A (k, U) at its first nodes."""
        return normalized(log_a + self._log_weights(self._nodes(_FIRST)))

    def _nodes(self, top):
        return np.arange(-_REACH, top, self.u_step)

    def _log_weights(self, u):
        return -0.5 * u**2 + np.log(self.u_step / np.sqrt(2 * np.pi))

    def _at(self, c, s):
        """Log A and four averages, (k, 5, U), at the first nodes of u."""
        table, x = self._table(c, _FIRST), self._place(c, s)
        return np.concatenate([table.log_a(x)[:, None], table.mean(x)[:, None], table.averages(x)], axis=1)

    def _scatter_slope(self, c, s):
        """∂/∂s of the variance of φ between inputs at a given u, (k, U)."""
        slope = self._table(c, _FIRST).scatter(self._place(c, s), 1)
        return slope / np.hypot(s, self._scale(c))[:, None]

    def _place(self, c, s):
        """Of a field in the tables."""
        if not np.max(s, initial=0) <= self.largest:
            raise FloatingPointError(f"field of size {np.max(s):g} on a class: the search diverged")
        return np.arcsinh(np.maximum(s, -_MOST_NEGATIVE) / self._scale(c))

    def _scale(self, c):
        """The field at which a class begins to switch as a whole."""
        n = self.counts[c]
        return 1 / np.sqrt(n * self.noise[c] + n**2 * (self.own[c] + self.between))

    def _table(self, c, top):
        """Of a class, at nodes of u up to `top`; classes of the same kind share one."""
        if (known := self._tables.get((*self._kind(c), top))) is not None:
            return known
        n, noise = self.counts[c], self.noise[c]
        u, x, m = self._lattice(c, top)
        fields = self._scale(c) * np.sinh(x)[:, None]
        moments = piecewise_moments(fields, m[None], np.sqrt(noise), self.shape.slopes)
        one, two = moments.powers[:2]
        columns = np.stack([one, one**2, two, mean_fourth(moments, n)], axis=1)
        log_a, found, _ = _over_latent(n * moments.log_g, columns, self._log_latent(c, m, u[:, None]))
        by_field = log_a, found[:, 0], found[:, 1:], found[:, 2] - found[:, 1]
        table = _Table(*(CubicSpline(x, each) for each in by_field))
        return self._tables.setdefault((*self._kind(c), top), table)

    def _kind(self, c):
        """What classes of the same averages have in common, but for rounding."""
        return self.counts[c], round(self.own[c], 12), round(self.noise[c], 12)

    def _lattice(self, c, top):
        """Nodes of u, of the arcsinh of a class's field, and of its latent."""
        n, own, u = self.counts[c], self.own[c], self._nodes(top)
        first, last = (np.arcsinh(end / self._scale(c)) for end in (-_MOST_NEGATIVE, self.largest))
        reach = _REACH * np.sqrt(own)
        most = np.sqrt(self.between) * u[-1] + n * self.largest * own + reach
        m = np.arange(-np.sqrt(self.between) * _REACH - reach, most, self.step[c])
        return u, np.arange(first - _STEP, last + 2 * _STEP, _STEP), m

    def _log_latent(self, c, m, u):
        """Log density of the latent m of a class given u, times the spacing of its nodes."""
        own = self.own[c]
        log_norm = np.log(self.step[c] / np.sqrt(2 * np.pi * own))
        return log_norm - 0.5 * (m - np.sqrt(self.between) * u) ** 2 / own

    def means(self, fields: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log g (k,) and ⟨φ⟩ (k, C) of `averages`, alone."""
        known = [(self._table(c, _FIRST), self._place(c, s)) for c, s in enumerate(fields.T)]
        log_g, p = self._over_u(sum(table.log_a(x) for table, x in known))
        return log_g, np.stack([np.einsum("ku,ku->k", p, table.mean(x)) for table, x in known], axis=1)

    # ---- a branch ---------------------------------------------------------------------------------

    def along_branch(self, c: int, fields: np.ndarray) -> np.ndarray:
        """Log g of neurons active on class c, (k,), at fields (k, C) of about the same s_c."""
        u, parts = self._branch(c, fields)
        return normalized(parts.sum(0) + self._log_weights(u))[0]

    def log_held(self, c: int, fields: np.ndarray, firmness: np.ndarray) -> np.ndarray:
        """What e^{−½bφ²} for every input of the other classes changes of it, b (k, C)."""
        change = np.empty(len(fields))
        for row, (s, b) in enumerate(zip(fields[:, None], firmness)):
            if row == 0 or np.any(s != fields[row - 1]):  # a branch costs most, and many rows ask for one
                u, parts = self._branch(c, s)
                log_weights = self._log_weights(u)
                known = normalized(parts.sum(0) + log_weights)[0]
            held = [
                parts[d] if d == c or b[d] == 0 else self._held(d, s[:, d], u, b[d]) for d in range(len(b))
            ]
            change[row] = (normalized(np.sum(held, axis=0) + log_weights)[0] - known)[0]
        return change

    def _branch(self, c, fields):
        """Nodes of u, and log A of every class there, (C, k, U)."""
        own, n = fields[:, c], self.counts[c]
        s = own.mean()
        if np.ptp(own) <= 1e-12 * abs(s):  # as everywhere across a branch: once is enough
            own = own[:1]
        center, top = max(self.pulls[c] * n * s, 0.0), _FIRST  # of u, were the silent inputs at 0
        while center + _REACH > top:
            top *= 2
        if top > _LARGEST:
            raise FloatingPointError(f"field of size {s:g} on a class: no table reaches it")
        nodes = self._nodes(top)
        index = slice(*np.searchsorted(nodes, (center - _REACH, center + _REACH)))
        parts = [
            np.broadcast_to(self._active(c, own, nodes[index]), (len(fields), index.stop - index.start))
            if d == c
            else self._table(d, top).log_a(self._place(d, fields[:, d]))[:, index]
            for d in range(len(self.counts))
        ]
        return nodes[index], np.array(parts)

    def _active(self, c, s, u):
        """Log A of the active class: its latent is shifted by n s (ρ − ρ_b)."""
        n, own, noise = self.counts[c], self.own[c], self.noise[c]
        s, center = s[:, None], np.sqrt(self.between) * u
        reach = _REACH * np.sqrt(own)
        # where all inputs are active whatever the latent is
        on = np.searchsorted(center, _ACTIVE * np.sqrt(noise) + reach - n * own * s.min())
        found = n * s * center + 0.5 * n * s**2 * (noise + n * own)
        s, center = s[..., None], center[:on, None]
        m = center + n * own * s + np.arange(-reach, reach, self.step[c])
        silent = -s * m + log_ndtr(-m / np.sqrt(noise))
        active = 0.5 * s**2 * noise + log_ndtr((m + s * noise) / np.sqrt(noise))
        log_weight = self._log_latent(c, m - n * own * s, u[:on, None])
        all_on = 0.5 * n * s[:, 0] ** 2 * noise
        found[:, :on] += normalized(n * np.logaddexp(silent, active) + log_weight)[0] - all_on
        return found

    def _held(self, d, s, u, firmness):
        """Log A of a silent class with e^{−½bφ²} for every input."""
        own, noise = self.own[d], self.noise[d]
        reach = _REACH * np.sqrt(own)
        first = min(np.sqrt(self.between) * u[0], 0) - reach
        m = np.arange(first, max(np.sqrt(self.between) * u[-1], 0) + reach, self.step[d])
        narrow, s = 1 + firmness * noise, s[:, None]
        gain = 0.5 * ((m + s * noise) ** 2 / narrow - m**2) / noise - 0.5 * np.log(narrow)
        active = gain + log_ndtr((m + s * noise) / np.sqrt(noise * narrow))
        log_g = np.logaddexp(log_ndtr(-m / np.sqrt(noise)), active)
        return normalized(self.counts[d] * log_g[:, None] + self._log_latent(d, m, u[:, None]))[0]

    # ---- neurons ----------------------------------------------------------------------------------

    def draw(self, fields: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Preactivations (k, P) at fields (k, C), of inputs with these labels (P,)."""
        found = np.empty((len(fields), len(labels)))
        bulk = fields.max(axis=1) <= self.largest
        for row in np.flatnonzero(~bulk):
            u, parts = self._branch(int(fields[row].argmax()), fields[row : row + 1])
            found[row] = self._drawn(fields[row : row + 1], u, parts.sum(0), labels, rng)[0]
        if bulk.any():
            rows, _, _ = self._bulk(fields[bulk])
            found[bulk] = self._drawn(fields[bulk], self._nodes(_FIRST), rows[:, :, 0].sum(0), labels, rng)
        return found

    def _drawn(self, fields, u, log_g, labels, rng):
        """The same, given nodes of u (U,) and Σ log A (k, U) there."""
        u = np.broadcast_to(u, log_g.shape)
        u = clustered.quantiles(u, log_g - 0.5 * u**2, rng.random((len(u), 1)))
        found = np.empty((len(fields), len(labels)))
        for c, s in enumerate(fields.T[:, :, None]):
            n, own, sigma = self.counts[c], self.own[c], np.sqrt(self.noise[c])
            center, shift = np.sqrt(self.between) * u, np.maximum(n * s * own, 0)
            reach = _REACH * np.sqrt(own)
            low = np.where(shift > 2 * reach, center + shift, np.minimum(center, 0)) - reach
            high = np.maximum(center, 0) + shift + reach
            nodes = int(np.ceil(np.max(high - low) / self.step[c])) + 1
            m = low + (high - low) * np.linspace(0, 1, nodes)
            log_g = piecewise_moments(s, m, sigma, self.shape.slopes).log_g
            log_density = n * log_g - 0.5 * (m - center) ** 2 / own
            chosen = clustered.quantiles(m, log_density, rng.random((len(m), 1)))
            members = np.flatnonzero(labels == c)
            levels = rng.random((len(m), len(members)))
            found[:, members] = clustered.given_latent(chosen, s[:, 0], sigma, self, levels)
        return found
