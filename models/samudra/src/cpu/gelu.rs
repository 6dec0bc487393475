//! The erf GELU with a cap, and its slope, in vectors.

/// u Phi(u), capped, for one value.
#[inline(always)]
pub(super) fn value(u: f32, cap: f32) -> f32 {
    let (phi, _) = normal(u);
    let y = u * phi;
    // A comparison, not `min`: NaN goes through.
    if y > cap { cap } else { y }
}

/// The derivative of [`value`]: zero where the cap holds.
#[inline(always)]
pub(super) fn slope(u: f32, cap: f32) -> f32 {
    let (phi, bell) = normal(u);
    let slope = phi + u * bell * INVERSE_ROOT_TAU;
    if u * phi > cap { 0.0 } else { slope }
}

/// 1 / sqrt(2 pi).
const INVERSE_ROOT_TAU: f32 = 0.398_942_3;

/// The normal distribution's cumulative function Phi(u), and exp(-u^2 / 2).
///
/// Phi(-a) = exp(-a^2 / 2) R(1 / (1 + 0.38 a)) for a >= 0, after Hastings. R is the polynomial of
/// degree 8 that meets it at the Chebyshev nodes of a = 0 .. 13.5; in exact arithmetic `a Phi(-a)`
/// is off by less than 4e-9 everywhere.
#[inline(always)]
fn normal(u: f32) -> (f32, f32) {
    let half_square = 0.5 * u * u;
    // Beyond, the bell is below 1e-37 and taken as zero, so that no large u brings it back.
    let near = half_square < 87.0;
    let bell = exp_minus(if near { half_square } else { 87.0 });
    let bell = if near { bell } else { 0.0 };
    let t = 1.0 / (1.0 + 0.38 * u.abs());
    let mut r = R[0];
    for c in &R[1..] {
        r = r * t + c;
    }
    let tail = bell * r;
    (if u < 0.0 { tail } else { 1.0 - tail }, bell)
}

/// Highest power first.
#[allow(clippy::excessive_precision, reason = "as they were fitted")]
const R: [f32; 9] = [
    -0.033_101_426_411_663_56,
    0.187_618_549_280_958_51,
    -0.401_769_311_312_694_8,
    0.342_231_366_996_410_01,
    -0.066_366_198_451_013_55,
    0.175_872_094_839_749,
    0.143_083_918_017_548_77,
    0.152_468_633_413_975_6,
    -3.763_011_213_453_46e-5,
];

/// exp(-v) for 0 <= v <= 87, to 2e-7 relative.
///
/// exp(-v) = 2^n exp(r) with a whole n and |r| <= ln(2) / 2.
#[inline(always)]
fn exp_minus(v: f32) -> f32 {
    // 1.5 * 2^23: added to a small number it leaves the nearest whole one in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let shifted = ROUND - v * std::f32::consts::LOG2_E;
    let n = shifted - ROUND;
    // ln(2) in two parts, the first with few bits, so that n times it is exact.
    let r = (-v - n * 0.693_359_4) + n * 2.121_944_4e-4;
    let mut p = 1.0 / 5040.0;
    for c in [720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0] {
        p = p * r + 1.0 / c;
    }
    let exponent = (shifted.to_bits() << 23).wrapping_add(127 << 23);
    p * f32::from_bits(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Phi by its series: exact to doubles where |u| is small enough for it.
    fn phi(u: f64) -> f64 {
        let mut term = u;
        let mut sum = u;
        for n in 1..200 {
            term *= u * u / (2 * n + 1) as f64;
            sum += term;
        }
        0.5 + sum * (-u * u / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
    }

    #[test]
    fn value_and_slope_are_exact_to_single_precision() {
        for i in -6000..=6000 {
            let u = i as f32 / 1000.0;
            let exact = f64::from(u);
            let bell = (-exact * exact / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
            let expected = (exact * phi(exact), phi(exact) + exact * bell);
            let scale = exact.abs().max(1.0);
            let found = (value(u, 10.0), slope(u, 10.0));
            assert!(
                (f64::from(found.0) - expected.0).abs() < 1.5e-7 * scale,
                "{u}"
            );
            assert!((f64::from(found.1) - expected.1).abs() < 3e-7, "{u}");
        }
    }

    #[test]
    fn far_out_it_is_zero_the_identity_and_the_cap() {
        for u in [-8.0, -20.0, -1e4, -3e38_f32] {
            assert!(value(u, 10.0).abs() < 1e-13, "{u}");
            assert!(slope(u, 10.0).abs() < 1e-13, "{u}");
        }
        assert_eq!((value(9.5, 10.0), slope(9.5, 10.0)), (9.5, 1.0));
        assert_eq!((value(10.0, 10.0), slope(10.0, 10.0)), (10.0, 1.0));
        assert_eq!((value(1e30, 10.0), slope(1e30, 10.0)), (10.0, 0.0));
        assert!(value(f32::NAN, 10.0).is_nan() && slope(f32::NAN, 10.0).is_nan());
    }
}
