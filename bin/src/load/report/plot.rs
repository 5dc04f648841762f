//! Lines over time as SVG.

use std::fmt::Write;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 200.0;
/// Room for numbers.
const LEFT: f64 = 52.0;
const BOTTOM: f64 = 22.0;
const TOP: f64 = 10.0;
const RIGHT: f64 = 10.0;

/// A line: its name, its class of colour, and its points.
pub(super) struct Line<'a> {
    pub(super) name: String,
    pub(super) colour: usize,
    pub(super) values: &'a [f64],
}

/// A plot with a title, or nothing where nothing is known.
pub(super) fn plot(title: &str, at: &[f64], lines: &[Line<'_>]) -> String {
    let known: Vec<&Line<'_>> = lines.iter().filter(|line| !line.values.is_empty()).collect();
    if known.is_empty() || at.len() < 2 {
        return String::new();
    }
    let highest = known.iter().flat_map(|line| line.values).copied().fold(0.0, f64::max);
    let (top, last) = (
        round_up(highest),
        at.last().copied().unwrap_or(1.0).max(f64::MIN_POSITIVE),
    );
    let x = |at: f64| LEFT + at / last * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - value / top * (HEIGHT - BOTTOM - TOP);
    let mut svg = format!("<figure><figcaption>{title}");
    // writing to a string cannot fail
    for line in &known {
        let _ = write!(svg, " <span class=\"key c{}\">{}</span>", line.colour, line.name);
    }
    let _ = write!(
        svg,
        "</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">"
    );
    for part in 0..=4 {
        let value = top * f64::from(part) / 4.0;
        let (y, end, label) = (y(value), WIDTH - RIGHT, short(value));
        let _ = write!(svg, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{end}\"/>");
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT - 6.0,
            y + 4.0
        );
        let at = last * f64::from(part) / 4.0;
        let label = short(at);
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label} s</text>",
            x(at).min(WIDTH - 16.0),
            HEIGHT - 5.0
        );
    }
    for line in known {
        let points = at
            .iter()
            .zip(line.values)
            .map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value)));
        let points: Vec<String> = points.collect();
        let _ = write!(
            svg,
            "<polyline class=\"c{}\" points=\"{}\"/>",
            line.colour,
            points.join(" ")
        );
    }
    svg + "</svg></figure>\n"
}

/// The next number of one, two or five and zeros.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let unit = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * unit);
    steps.into_iter().find(|step| *step >= value).unwrap_or(value)
}

fn short(value: f64) -> String {
    match value {
        value if value >= 1_000_000.0 => format!("{:.1}M", value / 1_000_000.0),
        value if value >= 10_000.0 => format!("{:.0}k", value / 1000.0),
        value if value.fract() == 0.0 || value >= 100.0 => format!("{value:.0}"),
        value if value >= 1.0 => format!("{value:.1}"),
        value => format!("{value:.3}").trim_end_matches('0').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, top) in [
            (0.0, 1.0),
            (0.7, 1.0),
            (3.1, 5.0),
            (17.0, 20.0),
            (99.0, 100.0),
            (101.0, 200.0),
        ] {
            assert!((round_up(value) - top).abs() < 1e-9, "{value}");
        }
        assert_eq!(
            [short(0.0), short(0.25), short(12_500.0), short(3.5)],
            ["0", "0.25", "12k", "3.5"]
        );
    }

    #[test]
    fn a_plot_has_a_line_for_each_that_is_known_and_none_for_nothing() {
        let line = |values| Line {
            name: "n".to_owned(),
            colour: 0,
            values,
        };
        let drawn = plot("t", &[0.0, 1.0], &[line(&[1.0, 2.0]), line(&[])]);
        assert_eq!(drawn.matches("<polyline").count(), 1);
        assert_eq!(plot("t", &[0.0, 1.0], &[line(&[])]), "");
        assert_eq!(plot("t", &[0.0], &[line(&[1.0])]), "");
    }
}
