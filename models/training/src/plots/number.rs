//! Numbers as labels.

/// A number with as many places as a scale of this size needs, in at most seven letters.
pub(super) fn number(value: f32, scale: f32) -> String {
    let largest = value.abs().max(scale.abs());
    if largest.is_finite() && largest > 0.0 && !(1e-3..1e5).contains(&largest) {
        return format!("{value:.1e}");
    }
    let places = match scale.abs() {
        s if s >= 100.0 => 0,
        s if s >= 10.0 => 1,
        s if s >= 0.5 => 2,
        _ => 3,
    };
    let text = format!("{value:.places$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    if text == "-0" {
        "0".into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_their_scale() {
        let cases = [
            (0.0, 0.0, "0"),
            (-0.0004, 1.0, "0"),
            (12.345, 30.0, "12.3"),
            (0.137, 0.274, "0.137"),
            (-250.4, 1e3, "-250"),
            (1.5e-5, 3e-5, "1.5e-5"),
        ];
        for (value, scale, text) in cases {
            assert_eq!(number(value, scale), text);
        }
    }
}
