//! The live screen: what it shows, what keys change, and the loop around both.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use ratatui::{DefaultTerminal, Frame};

use super::Sample;
use super::columns::{Column, columns, spell};
use super::process::Finder;
use super::row::{Grain, Row, rows};
use super::table::{NOTHING, align};
use crate::oxi::Trouble;

/// What is shown, and how.
struct Screen {
    before: Sample,
    now: Sample,
    delay: Duration,
    grain: Grain,
    sorted_by: Column,
    reverse: bool,
    /// How many rows are above the first one that is seen.
    scrolled: usize,
    /// The environment permits colours.
    colours: bool,
}

/// What a key asks for beyond a change of the screen.
#[derive(Debug, PartialEq, Eq)]
enum Response {
    Stay,
    Quit,
}

/// Shows the screen until q is pressed. The terminal is put back in any case, a panic included.
pub(super) fn run(finder: &Finder, delay: Duration) -> Result<(), Trouble> {
    if !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
        return Err("there is no terminal; try --once or --metrics FILE".into());
    }
    let mut terminal = ratatui::try_init()?;
    let result = watch(&mut terminal, finder, delay);
    ratatui::try_restore()?;
    Ok(result?)
}

fn watch(terminal: &mut DefaultTerminal, finder: &Finder, delay: Duration) -> io::Result<()> {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let mut screen = Screen::new(finder.look(), delay, !no_color);
    loop {
        let next = Instant::now() + delay;
        loop {
            terminal.draw(|frame| screen.draw(frame))?;
            let left = next.saturating_duration_since(Instant::now());
            if !event::poll(left)? {
                break;
            }
            if let Event::Key(key) = event::read()?
                && screen.press(key) == Response::Quit
            {
                return Ok(());
            }
        }
        screen.update(finder.look());
    }
}

impl Screen {
    fn new(now: Sample, delay: Duration, colours: bool) -> Self {
        Self {
            before: now.clone(),
            now,
            delay,
            grain: Grain::default(),
            sorted_by: Column::Bytes,
            reverse: false,
            scrolled: 0,
            colours,
        }
    }

    /// Takes another look.
    fn update(&mut self, now: Sample) {
        self.before = std::mem::replace(&mut self.now, now);
    }

    /// Does what a key says.
    fn press(&mut self, key: KeyEvent) -> Response {
        if key.kind == KeyEventKind::Release {
            return Response::Stay;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Response::Quit,
            KeyCode::Char('q') | KeyCode::Esc => return Response::Quit,
            KeyCode::Char('t') => {
                self.grain = match self.grain {
                    Grain::Processes => Grain::Endpoints,
                    Grain::Endpoints => Grain::Processes,
                };
                self.scrolled = 0;
            }
            KeyCode::Char(letter) => {
                if let Some(column) = Column::of_key(letter) {
                    self.reverse = self.sorted_by == column && !self.reverse;
                    self.sorted_by = column;
                }
            }
            KeyCode::Up => self.scrolled = self.scrolled.saturating_sub(1),
            KeyCode::Down => self.scrolled = self.scrolled.saturating_add(1),
            KeyCode::PageUp => self.scrolled = self.scrolled.saturating_sub(10),
            KeyCode::PageDown => self.scrolled = self.scrolled.saturating_add(10),
            KeyCode::Home => self.scrolled = 0,
            _ => {}
        }
        Response::Stay
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let areas = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ]);
        let [summary, head, body, foot] = areas.areas(frame.area());
        let mut rows = rows(&self.before, &self.now, self.grain);
        self.sorted_by.sort(&mut rows, self.reverse);
        let columns = columns(frame.area().width);
        frame.render_widget(Paragraph::new(self.summary(&rows)), summary);
        frame.render_widget(Paragraph::new(self.head(columns)), head);
        self.draw_rows(frame, body, columns, &rows);
        let keys = " q quit  t endpoints/processes  sort: p c m b s r u x e a ";
        frame.render_widget(
            Paragraph::new(keys).style(self.style(Color::DarkGray)),
            foot,
        );
    }

    fn draw_rows(&mut self, frame: &mut Frame<'_>, area: Rect, columns: &[Column], rows: &[Row]) {
        if rows.is_empty() {
            frame.render_widget(Paragraph::new(NOTHING), area);
            return;
        }
        let fit = usize::from(area.height);
        self.scrolled = self.scrolled.min(rows.len().saturating_sub(fit));
        let seen = rows.iter().skip(self.scrolled).take(fit);
        let lines: Vec<Line<'_>> = seen.map(|row| self.line(columns, row)).collect();
        frame.render_widget(Paragraph::new(lines), area);
    }

    /// Returns the sums of everything.
    fn summary(&self, rows: &[Row]) -> Line<'static> {
        let endpoints: usize = (self.now.processes.iter())
            .map(|process| process.endpoints.len())
            .sum();
        let messages: f64 = (rows.iter())
            .map(|row| row.out.operations + row.into.operations)
            .sum();
        let bytes: f64 = rows.iter().map(|row| row.out.bytes + row.into.bytes).sum();
        Line::from(format!(
            "oxi top  processes {}  endpoints {endpoints}  operations/s {}  bytes/s {}  every {} s",
            self.now.processes.len(),
            spell(messages),
            spell(bytes),
            self.delay.as_secs_f64(),
        ))
        .style(Style::new().add_modifier(Modifier::BOLD))
    }

    fn head(&self, columns: &[Column]) -> Line<'static> {
        let cells = columns.iter().flat_map(|&column| {
            let style = match column.is_sorted_by(self.sorted_by) {
                true => Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD),
                false => Style::new().add_modifier(Modifier::REVERSED),
            };
            let text = match column.is_sorted_by(self.sorted_by) {
                true => align(column, column.name()).to_uppercase(),
                false => align(column, column.name()),
            };
            [Span::styled(text, style), Span::styled(" ", style)]
        });
        Line::from(cells.collect::<Vec<_>>())
    }

    fn line(&self, columns: &[Column], row: &Row) -> Line<'static> {
        let cells = columns.iter().flat_map(|&column| {
            let text = align(column, &column.cell(row));
            [
                Span::styled(text, self.cell_style(column, row)),
                Span::raw(" "),
            ]
        });
        Line::from(cells.collect::<Vec<_>>())
    }

    /// Returns the style of a cell: what needs attention stands out.
    fn cell_style(&self, column: Column, row: &Row) -> Style {
        match column {
            Column::Errors if row.errors > 0 => self.style(Color::Red).add_modifier(Modifier::BOLD),
            Column::Retransmissions if row.retransmissions > 0 => self.style(Color::Yellow),
            Column::Unexpected if row.unexpected > 0 => self.style(Color::Yellow),
            Column::Age if row.age_s >= 5.0 => self.style(Color::Yellow),
            Column::Command => self.style(Color::Cyan),
            _ => Style::new(),
        }
    }

    fn style(&self, colour: Color) -> Style {
        match self.colours {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::tests::{endpoint, sample};
    use super::*;

    fn screen(endpoints: u64) -> Screen {
        let all = |messages| (1..=endpoints).map(|id| endpoint(id, messages)).collect();
        let mut screen = Screen::new(sample(1, all(0)), Duration::from_secs(1), true);
        let mut now = sample(2, all(1000));
        for endpoint in &mut now.processes[0].endpoints {
            endpoint.figures.sampled_ns += 1_000_000_000;
        }
        screen.update(now);
        screen
    }

    /// Returns what a terminal of this size shows.
    fn drawn(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| screen.draw(frame)).expect("it draws");
        let buffer = terminal.backend().buffer().clone();
        let rows = buffer.content().chunks(usize::from(width));
        let text = |row: &[ratatui::buffer::Cell]| -> String {
            row.iter().map(|cell| cell.symbol()).collect()
        };
        rows.map(|row| text(row).trim_end().to_owned()).collect()
    }

    fn press(screen: &mut Screen, code: KeyCode) -> Response {
        screen.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn a_process_has_a_line_at_80_by_24() {
        let lines = drawn(&mut screen(1), 80, 24);
        assert_eq!(lines.len(), 24);
        assert_eq!(
            lines[0],
            "oxi top  processes 1  endpoints 1  operations/s 2.0k  bytes/s 200k  every 1 s"
        );
        assert_eq!(
            lines[1],
            "    PID COMMAND     PROVIDER   EP PEER Msg/s   B/S Send Recv Unex  rtX  Err  Age"
        );
        assert_eq!(
            lines[2],
            "   4242 ring \"\\x\"   tcp         1    3  2.0k  200k    4    5    6    2    1 0.1s"
        );
        assert!(lines[23].starts_with(" q quit"));
    }

    #[test]
    fn it_fits_any_size() {
        let mut screen = screen(50);
        press(&mut screen, KeyCode::Char('t'));
        for (width, height) in [(1, 1), (10, 3), (80, 4), (200, 60), (120, 24)] {
            assert_eq!(drawn(&mut screen, width, height).len(), usize::from(height));
        }
        assert!(drawn(&mut screen, 120, 24)[1].contains("Mout/s"));
    }

    #[test]
    fn keys_sort_turn_scroll_and_quit() {
        let mut screen = screen(50);
        press(&mut screen, KeyCode::Char('t'));
        let ids = |screen: &mut Screen| -> Vec<String> {
            let lines = drawn(screen, 80, 24);
            let ids = lines[2..23].iter().filter_map(|line| line.get(30..34));
            ids.map(|id| id.trim().to_owned()).collect()
        };
        press(&mut screen, KeyCode::Char('p'));
        assert_eq!(ids(&mut screen)[0], "1");
        for _ in 0..3 {
            press(&mut screen, KeyCode::Down);
        }
        assert_eq!(ids(&mut screen)[0], "4");
        for _ in 0..100 {
            press(&mut screen, KeyCode::PageDown);
        }
        assert_eq!(ids(&mut screen).last().map(String::as_str), Some("50"));
        press(&mut screen, KeyCode::Up);
        assert_eq!(ids(&mut screen).last().map(String::as_str), Some("49"));
        press(&mut screen, KeyCode::Char('e'));
        assert_eq!((screen.sorted_by, screen.reverse), (Column::Errors, false));
        press(&mut screen, KeyCode::Char('e'));
        assert!(screen.reverse);
        let quits = [KeyCode::Char('q'), KeyCode::Esc].map(|code| press(&mut screen, code));
        assert_eq!(quits, [Response::Quit, Response::Quit]);
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(screen.press(control_c), Response::Quit);
    }

    #[test]
    fn without_colours_nothing_has_one() {
        for colours in [true, false] {
            let mut screen = screen(1);
            screen.colours = colours;
            let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a terminal");
            terminal.draw(|frame| screen.draw(frame)).expect("it draws");
            let mut cells = terminal.backend().buffer().content().iter();
            assert_eq!(cells.any(|cell| cell.fg != Color::Reset), colours);
        }
    }

    #[test]
    fn it_says_what_to_do_when_there_is_nothing() {
        let mut screen = Screen::new(Sample::default(), Duration::from_secs(1), true);
        let lines = drawn(&mut screen, 100, 24);
        assert_eq!(lines[2], NOTHING);
    }
}
