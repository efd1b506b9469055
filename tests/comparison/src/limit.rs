//! What the machine can do without any library, by the trials' program `limits`.

use std::error::Error;
use std::rc::Rc;
use std::time::Duration;

use oxifabric_trials::source::Compiled;
use oxifabric_trials::{Program, source};

use crate::cores::Cores;
use crate::speed::last_row;
use crate::workload::Figure;

/// The program.
#[derive(Clone)]
pub(crate) struct Limits(Rc<Compiled>);

/// A limit that something is held against.
#[derive(Clone)]
pub(crate) struct Limit {
    limits: Limits,
    work: &'static str,
    bytes: u64,
    count: u64,
}

impl Limits {
    /// The program, if there is a compiler and both processes have a processor.
    pub(crate) fn new(cores: &Cores) -> Option<Self> {
        cores.pair()?;
        let compiler = oxifabric_trials::installed("cc").ok()?;
        Some(Self(Rc::new(source::compile("limits", &compiler, &[]))))
    }

    /// One of its works, `count` times.
    pub(crate) fn of(&self, work: &'static str, bytes: u64, count: u64) -> Limit {
        Limit {
            limits: self.clone(),
            work,
            bytes,
            count,
        }
    }
}

impl Limit {
    /// Measures it once.
    pub(crate) fn measure(
        &self,
        figure: Figure,
        cores: &Cores,
    ) -> Result<Option<f64>, Box<dyn Error>> {
        let Some(pair) = cores.pair() else {
            return Ok(None);
        };
        let (bytes, count) = (self.bytes, self.count);
        let outcome = Program::new(self.limits.0.file())
            .args([self.work])
            .line(&format!("{bytes} {count} {} {}", pair[0], pair[1]))
            .limit(Duration::from_secs(60))
            .run();
        let row = last_row(&outcome.stdout).filter(|_| outcome.is_success());
        let row = row.ok_or_else(|| outcome.to_string())?;
        Ok(figure.of(&row))
    }
}
