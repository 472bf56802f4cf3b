"""The coefficients of src/tile/isa/polynomials.h, and where they come from.

    python tools/polynomial.py > src/tile/isa/polynomials.h        (needs mpmath; a few seconds)

Each row is a function g on [low, high], approximated by the polynomial P of the given degree that makes the largest
weight(t) * |g(t) - P(t)| least (Remez's exchange). The weight turns the error of P into the relative error of what is
computed from it. Coefficients are rounded to the type they are used in; the header states the error before rounding.
"""
from mpmath import cos, erf, erfc, exp, log, lu_solve, matrix, mp, mpf, pi, sin, sqrt, tanh

mp.dps = 60


def chebyshev_points(low, high, count):
    return [(low + high) / 2 - (high - low) / 2 * cos(pi * i / (count - 1)) for i in range(count)]


def evaluate(coefficients, t):
    value = mpf(0)
    for c in reversed(coefficients):
        value = value * t + c
    return value


def remez(g, weight, low, high, degree, rounds=12):
    low, high = mpf(low), mpf(high)
    grid = [(t, g(t), weight(t)) for t in chebyshev_points(low, high, 60 * (degree + 2))]
    nodes = grid[:: len(grid) // (degree + 1)][: degree + 1] + [grid[-1]]
    for _ in range(rounds):
        system = matrix(degree + 2, degree + 2)
        right = matrix(degree + 2, 1)
        for i, (t, value, w) in enumerate(nodes):
            for k in range(degree + 1):
                system[i, k] = t ** k
            system[i, degree + 1] = (-1) ** i / w
            right[i] = value
        solution = lu_solve(system, right)
        coefficients = [solution[k] for k in range(degree + 1)]
        errors = [(w * (value - evaluate(coefficients, t)), (t, value, w)) for t, value, w in grid]
        peaks = []
        for error, node in errors:          # the largest error of each stretch of one sign
            if peaks and (peaks[-1][0] > 0) == (error > 0):
                if abs(error) > abs(peaks[-1][0]):
                    peaks[-1] = (error, node)
            else:
                peaks.append((error, node))
        while len(peaks) > degree + 2:
            peaks.pop(0 if abs(peaks[0][0]) < abs(peaks[-1][0]) else -1)
        worst = max(abs(e) for e, _ in errors)
        if len(peaks) < degree + 2 or worst / min(abs(e) for e, _ in peaks) < mpf("1.01"):
            break
        nodes = [node for _, node in peaks]
    return coefficients, worst


def series(g, first_terms, t):
    """g near 0 by its first Taylor terms, where the closed form would cancel."""
    return evaluate([mpf(c) for c in first_terms], t) if abs(t) < mpf("1e-12") else g(t)


half_log2 = log(mpf(2)) / 2 * mpf("1.01")
sqrt_half = sqrt(mpf(1) / 2)
quarter_turn = (pi / 4 * mpf("1.005")) ** 2


def of_square(f):
    return lambda z: f(sqrt(z))


sin_part = of_square(lambda r: series(lambda t: (sin(t) - t) / t ** 3, [-mpf(1) / 6], r))
cos_part = of_square(lambda r: series(lambda t: (cos(t) - 1 + t ** 2 / 2) / t ** 4, [mpf(1) / 24], r))

# A constant in pieces: all but the last have few bits, so that a whole number times a piece is exact.
SPLITS = [
    # name, value, bits of each piece but the last, type
    ("LN2_f32", log(mpf(2)), [15], "float"),
    ("LN2_f64", log(mpf(2)), [32], "double"),
    ("QUARTER_f64", pi / 2, [33, 33], "double"),
]

ROWS = [
    # name, text, g, weight, low, high, degree in f32, degree in f64; "short": evaluated in f64 for a result in f32
    ("exp", "(exp(r) - 1 - r) / r^2", lambda r: series(lambda t: (exp(t) - 1 - t) / t ** 2, ["0.5"], r),
     lambda r: max(r ** 2, mpf("1e-9")) / exp(r), -half_log2, half_log2, 4, 9),
    ("log", "(log(1 + f) - f + f^2/2) / f^3",
     lambda f: series(lambda t: (log(1 + t) - t + t ** 2 / 2) / t ** 3, [mpf(1) / 3], f),
     lambda f: max(f ** 2, mpf("1e-6")), sqrt_half - 1, sqrt(mpf(2)) - 1, 7, None),
    ("log_ratio", "(log((1 + s) / (1 - s)) - 2 s) / s^3 in z = s^2",
     of_square(lambda s: series(lambda t: (log((1 + t) / (1 - t)) - 2 * t) / t ** 3, [mpf(2) / 3], s)),
     lambda z: max(z, mpf("1e-6")), mpf(0), mpf("0.02944"), None, 6),
    ("tanh", "(tanh(x) - x) / x^3 in z = x^2",
     of_square(lambda x: series(lambda t: (tanh(t) - t) / t ** 3, [-mpf(1) / 3], x)),
     lambda z: max(z, mpf("1e-6")), mpf(0), mpf("0.625") ** 2, 4, 11),
    ("sin", "(sin(r) - r) / r^3 in z = r^2", sin_part, lambda z: max(z, mpf("1e-6")), mpf(0), quarter_turn, None, 5),
    ("sin_short", "the same for f32", sin_part, lambda z: max(z, mpf("1e-6")), mpf(0), quarter_turn, None, 2),
    ("cos", "(cos(r) - 1 + r^2/2) / r^4 in z = r^2", cos_part, lambda z: max(z ** 2, mpf("1e-6")), mpf(0), quarter_turn,
     None, 5),
    ("cos_short", "the same for f32", cos_part, lambda z: max(z ** 2, mpf("1e-6")), mpf(0), quarter_turn, None, 2),
    ("erf", "erf(x) / x - 1 in z = x^2",
     of_square(lambda x: (erf(x) / x if x > mpf("1e-15") else 2 / sqrt(pi)) - 1),
     lambda z: mpf(1), mpf(0), mpf("0.95") ** 2, 6, None),
    ("exp2", "(2^r - 1) / r", lambda r: series(lambda t: (mpf(2) ** t - 1) / t, [log(mpf(2))], r),
     lambda r: max(abs(r), mpf("1e-6")), mpf("-0.501"), mpf("0.501"), 4, None),
    ("tail_log2", "log2(erfc(h * sqrt(2)) / 2) in h", lambda h: log(erfc(h * sqrt(mpf(2))) / 2, 2),
     lambda h: erfc(h * sqrt(mpf(2))) * (1 + 2 * h) + mpf("2e-4"), mpf(0), mpf("2.3"), 8, None),
    ("erfc_log", "log(erfc(x)) in x - 1", lambda t: log(erfc(t + 1)), lambda t: erfc(t + 1) + mpf("1e-6"),
     mpf("-0.06"), mpf("2.93"), 7, None),
]


def constant(value, type_name):
    if type_name == "float":
        import struct
        rounded = struct.unpack("f", struct.pack("f", float(value)))[0]
        return rounded.hex() + "f"
    return float(value).hex()


def estrin(terms, power, fused):
    """Terms of a polynomial in t^power as one expression: halves side by side, since a chain would wait for each step."""
    if len(terms) == 1:
        return terms[0]
    form = "fma_f32(t{power}, {b}, {a})" if fused else "({a} + t{power} * {b})"
    pairs = []
    for i in range(0, len(terms), 2):
        pairs.append(form.format(power=power, a=terms[i], b=terms[i + 1]) if i + 1 < len(terms) else terms[i])
    return estrin(pairs, power * 2, fused)


def print_function(name, text, coefficients, error, type_name, suffix):
    print(f"\n/* {text}; error {float(error):.1e} */")
    print(f"static inline {type_name} polynomial_{name}_{suffix}({type_name} t1)\n{{")
    power = 2
    while power < len(coefficients):
        print(f"    {type_name} t{power} = t{power // 2} * t{power // 2};")
        power *= 2
    for i, c in enumerate(coefficients):
        print(f"    const {type_name} c{i} = {constant(c, type_name)};")
    print(f"    return {estrin([f'c{i}' for i in range(len(coefficients))], 1, suffix == 'f32')};\n}}")


def print_split(name, value, bits, type_name):
    for i, count in enumerate(bits + [0]):
        piece = value
        if count:
            scale = mpf(2) ** (count - int(mp.floor(log(value, 2))) - 1)
            piece = mp.floor(value * scale) / scale
        print(f"#define {name}_{i} {constant(piece, type_name)}")
        value -= piece


def print_far(name, coefficients, low, high, target):
    """Where a polynomial that falls on beyond its range reaches `target`."""
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if evaluate(coefficients, middle) > target else (low, middle)
    print(f"#define {name} {constant(low, 'float')}")


def main():
    print("/* polynomials.h - printed by tools/polynomial.py, which says where the coefficients come from. */")
    print("#ifndef TP_TILE_POLYNOMIALS_H\n#define TP_TILE_POLYNOMIALS_H")
    print("\n#include <math.h>")
    print("\n/* One rounding. A call where the instruction set has no such instruction, with the same result. */")
    print("static inline float fma_f32(float a, float b, float c) { return fmaf(a, b, c); }")
    print("\n/* A constant in pieces; a whole number times a piece is exact, but for the last. */")
    for name, value, bits, type_name in SPLITS:
        print_split(name, value, bits, type_name)
    for name, text, g, weight, low, high, degree_f32, degree_f64 in ROWS:
        for degree, type_name, suffix in ((degree_f32, "float", "f32"), (degree_f64, "double", "f64")):
            if degree is not None:
                coefficients, error = remez(g, weight, low, high, degree)
                print_function(name, text, coefficients, error, type_name, suffix)
                if name == "tail_log2":
                    print_far("TAIL_FAR_f32", coefficients, high, mpf(8), -128)
    print("\n#endif")


main()
