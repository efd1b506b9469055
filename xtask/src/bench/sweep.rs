//! The same work over many sizes, as curves; and how the times of single messages are spread.

use std::collections::BTreeMap;
use std::error::Error;

use oxifabric_trials::Library;
use plotters::prelude::IntoLogRange;

use super::cores::Cores;
use super::drawing::{self, Curve, Labels};
use super::sample::Quartiles;
use super::speed::{self, Speed};
use super::ucx::Test;
use super::workload::Figure;

/// A work over many sizes.
struct Sweep {
    caption: &'static str,
    upwards: &'static str,
    work: &'static str,
    figure: Figure,
    ucx: &'static str,
}

const SWEEPS: [Sweep; 2] = [
    Sweep {
        caption: "tagged messages, one way",
        upwards: "microseconds",
        work: "latency",
        figure: Figure::LatencyUs,
        ucx: "tag_lat",
    },
    Sweep {
        caption: "tagged messages in windows of 64",
        upwards: "MB/s",
        work: "rate",
        figure: Figure::MbytesPerSecond,
        ucx: "tag_bw",
    },
];

/// How far powers of four go.
const LONGEST: u64 = 4 << 20;
/// Messages of up to 8 KiB at each size.
const COUNT: u64 = 50_000;

/// The libraries compared over one provider, and how.
pub(super) struct Field<'a> {
    pub(super) provider: &'a str,
    pub(super) libraries: [&'a Library; 2],
    pub(super) cores: &'a Cores,
    pub(super) rounds: u32,
    pub(super) short: bool,
}

/// Curves, and what they look like.
pub(super) struct Drawn {
    pub(super) caption: String,
    pub(super) curves: Vec<Curve>,
    pub(super) svg: String,
}

/// Figures of everybody by size (or by percent), one of each round.
type Points = BTreeMap<u64, Vec<f64>>;

impl Field<'_> {
    /// Draws everything that there is to draw: nothing without a compiler and headers for the program.
    pub(super) fn draw(&self) -> Result<Vec<Drawn>, Box<dyn Error>> {
        let mut drawings = Vec::new();
        if let Err(missing) = Speed::new("latency") {
            println!("no drawings: {missing}");
            return Ok(drawings);
        }
        for sweep in &SWEEPS {
            drawings.push(self.sweep(sweep)?);
        }
        drawings.push(self.spread()?);
        Ok(drawings)
    }

    fn sizes(&self) -> Vec<u64> {
        let longest = if self.short { 4096 } else { LONGEST };
        let sizes = std::iter::successors(Some(8), |size| Some(size * 4));
        sizes.take_while(|size| *size <= longest).collect()
    }

    fn count(&self) -> u64 {
        if self.short { COUNT / 100 } else { COUNT }
    }

    fn sweep(&self, sweep: &Sweep) -> Result<Drawn, Box<dyn Error>> {
        let speed = Speed::new(sweep.work).map_err(|missing| missing.0)?;
        let sizes: Vec<String> = self.sizes().iter().map(u64::to_string).collect();
        let options = format!("{} {}", sizes.join(","), self.count());
        let mut points = [Points::new(), Points::new(), Points::new()];
        for round in 0..self.rounds {
            for at in turns(round) {
                let (library, points) = (self.libraries[at], &mut points[at]);
                let printed = speed.play(&options, library, self.provider, self.cores, None)?;
                for row in speed::rows(&printed) {
                    let figure = sweep.figure.of(&row).into_iter();
                    points.entry(row.bytes).or_default().extend(figure);
                }
            }
            self.sweep_ucx(sweep, &mut points[2])?;
        }
        let curves = self.curves(&points);
        let caption = format!("{}: {}", self.provider, sweep.caption);
        let labels = Labels {
            caption: &caption,
            across: "bytes",
            upwards: sweep.upwards,
            spell: &|bytes| spell_bytes(*bytes),
        };
        let across = 8.0..*self.sizes().last().unwrap_or(&64) as f64;
        let upwards = span_of(&curves).log_scale();
        let svg = drawing::svg(&labels, across.log_scale(), upwards, &curves)?;
        Ok(Drawn {
            caption,
            curves,
            svg,
        })
    }

    fn sweep_ucx(&self, sweep: &Sweep, points: &mut Points) -> Result<(), Box<dyn Error>> {
        for bytes in self.sizes() {
            let test = Test {
                name: sweep.ucx,
                bytes,
                count: speed::scaled(self.count(), bytes),
            };
            let figure = test.measure(self.provider, sweep.figure, self.cores)?;
            points.entry(bytes).or_default().extend(figure);
        }
        Ok(())
    }

    /// How many of all messages of 8 bytes took no longer than so long.
    fn spread(&self) -> Result<Drawn, Box<dyn Error>> {
        let speed = Speed::new("latency").map_err(|missing| missing.0)?;
        let options = format!("8 {}", self.count() * 4);
        let mut points = [Points::new(), Points::new()];
        for round in 0..self.rounds {
            for at in turns(round) {
                let (library, points) = (self.libraries[at], &mut points[at]);
                let printed = speed.play(&options, library, self.provider, self.cores, None)?;
                for (percent, time_us) in speed::quantiles(&printed) {
                    let at = (percent * 100.0) as u64;
                    points.entry(at).or_default().push(time_us);
                }
            }
        }
        let mut curves = self.curves(&points);
        for curve in &mut curves {
            for point in &mut curve.points {
                *point = (point.1, point.0 / 100.0);
            }
        }
        let provider = self.provider;
        let caption = format!("{provider}: half the round trip of a tagged message of 8 B");
        let labels = Labels {
            caption: &caption,
            across: "microseconds",
            upwards: "percent that took no longer",
            spell: &|time_us| format!("{time_us}"),
        };
        let times = curves.iter().flat_map(|curve| curve.points.iter());
        let across = drawing::span(times.map(|point| point.0)).log_scale();
        let svg = drawing::svg(&labels, across, 0.0..100.0, &curves)?;
        Ok(Drawn {
            caption,
            curves,
            svg,
        })
    }

    /// The medians, as a curve for each library that has some.
    fn curves(&self, points: &[Points]) -> Vec<Curve> {
        let [ours, reference] = self.libraries.map(Library::name);
        let mut curves = Vec::new();
        for (name, points) in [ours, reference, "UCX"].iter().zip(points) {
            let some = points.iter().filter(|(_, figures)| !figures.is_empty());
            let median = |figures: &[f64]| Quartiles::of(figures).median;
            let points: Vec<_> = some
                .map(|(at, figures)| (*at as f64, median(figures)))
                .collect();
            if !points.is_empty() {
                let name = (*name).to_owned();
                curves.push(Curve { name, points });
            }
        }
        curves
    }
}

/// The library that runs first and the one that runs second; they change places with every round.
const fn turns(round: u32) -> [usize; 2] {
    match round % 2 {
        0 => [0, 1],
        _ => [1, 0],
    }
}

fn span_of(curves: &[Curve]) -> std::ops::Range<f64> {
    let points = curves.iter().flat_map(|curve| curve.points.iter());
    drawing::span(points.map(|point| point.1))
}

fn spell_bytes(bytes: f64) -> String {
    match bytes as u64 {
        bytes @ 0..1024 => format!("{bytes}"),
        bytes @ 1024..1_048_576 => format!("{}Ki", bytes >> 10),
        bytes => format!("{}Mi", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_spelled_in_powers_of_two() {
        let spelled = [8.0, 1024.0, 65536.0, 4_194_304.0].map(spell_bytes);
        assert_eq!(spelled, ["8", "1Ki", "64Ki", "4Mi"]);
    }
}
