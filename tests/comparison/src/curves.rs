//! The same work over many sizes, as curves; and how the times of single messages are spread.

use std::collections::BTreeMap;
use std::error::Error;

use oxifabric_bench::chart::svg::{Drawing, Labels};
use oxifabric_bench::chart::{Scale, Series};
use oxifabric_bench::statistics::median;
use oxifabric_bench::units::spell_size;
use oxifabric_trials::Library;

use crate::cores::Cores;
use crate::speed::{self, Speed};
use crate::ucx::Test;
use crate::workload::Figure;

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
pub(crate) struct Field<'a> {
    pub(crate) provider: &'a str,
    pub(crate) libraries: [&'a Library; 2],
    pub(crate) cores: &'a Cores,
    pub(crate) rounds: u32,
    pub(crate) short: bool,
}

/// Curves, and what they look like.
pub(crate) struct Drawn {
    pub(crate) caption: String,
    pub(crate) curves: Vec<Series>,
    pub(crate) svg: String,
}

/// Figures of each library by size (or by percent), one of each round.
type Points = BTreeMap<u64, Vec<f64>>;

impl Field<'_> {
    /// Draws everything that there is to draw: nothing without a compiler and headers for the program.
    pub(crate) fn draw(&self) -> Result<Vec<Drawn>, Box<dyn Error>> {
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
            title: &caption,
            across: "length of a message",
            upwards: sweep.upwards,
        };
        let sizes = self.sizes().into_iter().step_by(2);
        let marks = sizes.map(|bytes| (bytes as f64, spell_size(bytes as usize)));
        let drawing = Drawing::new(labels, [Scale::Logarithmic; 2], &curves);
        let drawing = drawing.ok_or("there is nothing to draw")?;
        Ok(Drawn {
            svg: drawing.marks(marks.collect()).svg(),
            caption,
            curves,
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
            title: &caption,
            across: "microseconds",
            upwards: "percent that took no longer",
        };
        let drawing = Drawing::new(labels, [Scale::Logarithmic, Scale::Linear], &curves);
        let svg = drawing.ok_or("there is nothing to draw")?.svg();
        Ok(Drawn {
            caption,
            curves,
            svg,
        })
    }

    /// The medians, as a curve for each library that has some.
    fn curves(&self, points: &[Points]) -> Vec<Series> {
        let [ours, reference] = self.libraries.map(Library::name);
        let mut curves = Vec::new();
        for (name, points) in [ours, reference, "UCX"].iter().zip(points) {
            let some = points.iter().filter(|(_, figures)| !figures.is_empty());
            let points: Vec<_> = some
                .map(|(at, figures)| (*at as f64, median(figures)))
                .collect();
            if !points.is_empty() {
                let name = (*name).to_owned();
                curves.push(Series { name, points });
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
