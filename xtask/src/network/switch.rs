//! The switch that the hosts hang on: it delays frames, loses some, and lets no connection into the host behind a firewall.
//!
//! Each host has a VXLAN device, whose frames come here as UDP datagrams: 8 bytes of VXLAN, then the Ethernet frame. The
//! kernel of the hosts does the rest, so a lost frame is a lost packet of TCP, which times out and is sent again. Frames of
//! one host to another stay in order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::Read as _;
use std::net::{IpAddr, UdpSocket};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::draw::SeededDraw;
use super::hosts::{CLIENT, FIREWALLED, Host, SWITCH, UNDERLAY, VXLAN_PORT};

/// Shortest and longest way from one host to another, in microseconds; each pair has its own.
const DELAY_US: [u64; 2] = [5_000, 25_000];

/// What is added to the way of a frame at most, in microseconds.
const JITTER_US: u64 = 3_000;

/// Frames lost of a thousand.
pub(crate) const LOST_PER_MILLE: u64 = 10;

/// Frames that wait at most; more are lost, as at any switch.
const WAITING_MAX: usize = 65_536;

/// Bytes of VXLAN before the frame.
const VXLAN_BYTES: usize = 8;

/// Bytes of Ethernet before the packet.
const ETHERNET_BYTES: usize = 14;

/// The number of TCP in a packet of IPv4.
const TCP: &u8 = &6;

/// A frame on its way: when it arrives, its number, where, and its bytes.
type Waiting = Reverse<(Instant, u64, Host, Vec<u8>)>;

/// Frames on their way, the first to arrive on top.
#[derive(Debug, Default)]
struct Wires {
    waiting: Mutex<BinaryHeap<Waiting>>,
    changed: Condvar,
}

/// Runs the switch among `hosts` until its input ends.
///
/// # Errors
/// If its socket cannot be opened or fails.
pub(crate) fn run(seed: u64, hosts: Vec<Host>) -> Result<()> {
    let place = (UNDERLAY.of(SWITCH), VXLAN_PORT);
    let socket = Arc::new(UdpSocket::bind(place).context("open the switch")?);
    let wires = Arc::new(Wires::default());
    let (sending, sent) = (Arc::clone(&wires), Arc::clone(&socket));
    thread::spawn(move || deliver(&sending, &sent));
    thread::spawn(move || {
        let failed = SwitchPorts::new(seed, hosts).receive(&wires, &socket);
        if let Err(error) = failed {
            report(&format!("the switch failed: {error:#}"));
        }
    });
    // Whoever started it holds the other end, and may have died.
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input)?;
    Ok(())
}

#[expect(clippy::print_stderr, reason = "this is a command line tool")]
fn report(line: &str) {
    eprintln!("{line}");
}

/// Sends frames when they are due.
fn deliver(wires: &Wires, socket: &UdpSocket) {
    let mut waiting = wires.waiting.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let now = Instant::now();
        let wait = match waiting.peek() {
            None => Duration::from_secs(1),
            Some(Reverse((due, ..))) => due.saturating_duration_since(now),
        };
        if !wait.is_zero() {
            let waited = wires.changed.wait_timeout(waiting, wait);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        if let Some(Reverse((.., host, frame))) = waiting.pop() {
            // A host whose device is down hears nothing.
            let _unheard = socket.send_to(&frame, (UNDERLAY.of(host), VXLAN_PORT));
        }
    }
}

/// What the switch knows of its ports.
struct SwitchPorts {
    hosts: Vec<Host>,
    draw: SeededDraw,
    /// The way between two hosts, the lower number first.
    delays: BTreeMap<(Host, Host), Duration>,
    /// When the last frame of one host arrives at another.
    last: BTreeMap<(Host, Host), Instant>,
    count: u64,
}

impl SwitchPorts {
    fn new(seed: u64, hosts: Vec<Host>) -> Self {
        let mut draw = SeededDraw::new(seed);
        let mut delays = BTreeMap::new();
        for (index, &one) in hosts.iter().enumerate() {
            for &other in &hosts[index + 1..] {
                let way = draw.between(DELAY_US[0], DELAY_US[1]);
                delays.insert((one.min(other), one.max(other)), Duration::from_micros(way));
            }
        }
        Self {
            hosts,
            draw,
            delays,
            last: BTreeMap::new(),
            count: 0,
        }
    }

    /// Takes frames from hosts and puts them on their way.
    fn receive(mut self, wires: &Wires, socket: &UdpSocket) -> Result<()> {
        let mut buffer = vec![0; 65_536];
        loop {
            let (length, from) = socket.recv_from(&mut buffer)?;
            let IpAddr::V4(from) = from.ip() else {
                bail!("a host speaks IPv6");
            };
            let from = from.octets()[3];
            let frame = &mut buffer[..length];
            let Some(to) = frame.get(VXLAN_BYTES..).and_then(destination) else {
                continue;
            };
            sum_up(&mut frame[VXLAN_BYTES..]);
            let receivers: Vec<Host> = match to {
                Destination::One(host) => vec![host],
                Destination::All => self
                    .hosts
                    .iter()
                    .copied()
                    .filter(|it| *it != from)
                    .collect(),
            };
            let mut waiting = wires.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            for to in receivers {
                if waiting.len() < WAITING_MAX && self.passes(from, to, &frame[VXLAN_BYTES..]) {
                    self.count += 1;
                    let due = self.due(from, to);
                    waiting.push(Reverse((due, self.count, to, frame.to_vec())));
                }
            }
            drop(waiting);
            wires.changed.notify_one();
        }
    }

    /// Whether a frame is let through and not lost.
    fn passes(&mut self, from: Host, to: Host, frame: &[u8]) -> bool {
        if !self.hosts.contains(&to) || (to == FIREWALLED && opens_connection(frame)) {
            return false;
        }
        // The client watches: its ways are perfect, or it would measure them.
        from == CLIENT || to == CLIENT || self.draw.below(1_000) >= LOST_PER_MILLE
    }

    /// When a frame that is sent now arrives: never before the one before.
    fn due(&mut self, from: Host, to: Host) -> Instant {
        let now = Instant::now();
        if from == CLIENT || to == CLIENT {
            return now;
        }
        let way = self.delays.get(&(from.min(to), from.max(to)));
        let jitter = Duration::from_micros(self.draw.below(JITTER_US));
        let due = now + way.copied().unwrap_or_default() + jitter;
        let due = self
            .last
            .get(&(from, to))
            .map_or(due, |last| due.max(*last));
        self.last.insert((from, to), due);
        due
    }
}

/// To whom a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    One(Host),
    All,
}

/// To whom a frame goes, by its hardware address; `None` for what nobody needs, such as announcements of IPv6.
fn destination(frame: &[u8]) -> Option<Destination> {
    match frame.get(..6)? {
        [0xff, 0xff, 0xff, 0xff, 0xff, 0xff] => Some(Destination::All),
        [0x02, 0, 0, 0, 0, host] => Some(Destination::One(*host)),
        _ => None,
    }
}

/// Writes the checksum of TCP over IPv4: kernels leave it to the hardware, which a virtual device does not have.
fn sum_up(frame: &mut [u8]) {
    let Some(ip) = frame.get_mut(ETHERNET_BYTES..) else {
        return;
    };
    let (Some(first), Some(TCP)) = (ip.first(), ip.get(9)) else {
        return;
    };
    let header = usize::from(first & 15) * 4;
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    if total > ip.len() || total < header + 20 || header < 20 {
        return;
    }
    ip[header + 16..header + 18].fill(0);
    // The addresses, the protocol and the length stand for the header.
    let sums = |bytes: &[u8]| -> u64 {
        let pair = |it: &[u8]| u64::from(it[0]) << 8 | it.get(1).copied().map_or(0, u64::from);
        bytes.chunks(2).map(pair).sum()
    };
    let mut sum =
        sums(&ip[12..20]) + u64::from(*TCP) + (total - header) as u64 + sums(&ip[header..total]);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let sum = !u16::try_from(sum).unwrap_or(0);
    ip[header + 16..header + 18].copy_from_slice(&sum.to_be_bytes());
}

/// Whether a frame is the first of a TCP connection, or of no TCP connection at all: what a firewall that lets only
/// answers in keeps out. Questions for hardware addresses pass.
fn opens_connection(frame: &[u8]) -> bool {
    const QUESTIONS: [u8; 2] = [0x08, 0x06];
    if frame.get(12..14) == Some(&QUESTIONS) {
        return false;
    }
    let ip = frame.get(ETHERNET_BYTES..).unwrap_or_default();
    let (Some(first), Some(protocol)) = (ip.first(), ip.get(9)) else {
        return true;
    };
    let flags = ip.get(usize::from(first & 15) * 4 + 13);
    protocol != TCP || flags.is_none_or(|flags| flags & 0x12 == 0x02)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of TCP over IPv4 with the given flags.
    fn tcp(flags: u8) -> Vec<u8> {
        let mut frame = vec![0; 14 + 20 + 20];
        frame[..6].copy_from_slice(&[0x02, 0, 0, 0, 0, FIREWALLED]);
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14] = 0x45;
        frame[14 + 9] = 6;
        frame[14 + 20 + 13] = flags;
        frame
    }

    #[test]
    fn a_firewall_keeps_first_packets_out_and_lets_answers_in() {
        let [syn, ack, fin] = [0x02, 0x10, 0x01];
        assert!(opens_connection(&tcp(syn)));
        assert!(!opens_connection(&tcp(syn | ack)));
        assert!(!opens_connection(&tcp(ack)));
        assert!(!opens_connection(&tcp(fin | ack)));
        let mut datagram = tcp(ack);
        datagram[14 + 9] = 17;
        assert!(opens_connection(&datagram));
        let mut question = vec![0xff; 42];
        question[12..14].copy_from_slice(&[0x08, 0x06]);
        assert!(!opens_connection(&question));
        assert!(opens_connection(&[]));
    }

    #[test]
    fn the_checksum_of_tcp_is_the_one_of_its_standard() {
        let mut frame = tcp(0x10);
        let ip = &mut frame[ETHERNET_BYTES..];
        ip[2..4].copy_from_slice(&40_u16.to_be_bytes());
        ip[12..20].copy_from_slice(&[127, 0, 0, 1, 127, 0, 0, 1]);
        ip[32] = 0x50;
        sum_up(&mut frame);
        let ip = &frame[ETHERNET_BYTES..];
        // 0x7f00 + 0x0001, twice, and 6 + 20, and 0x5010: 0x14e2c, folded 0x4e2d.
        assert_eq!(&ip[36..38], &(!0x4e2d_u16).to_be_bytes());
    }

    #[test]
    fn frames_of_a_pair_stay_in_order_and_none_is_early() {
        let mut ports = SwitchPorts::new(7, vec![CLIENT, 11, 12]);
        let mut before = Instant::now();
        let least = before + Duration::from_micros(DELAY_US[0]);
        for _ in 0..100 {
            let due = ports.due(11, 12);
            assert!(due >= before && due >= least);
            before = due;
        }
        let lost = (0..10_000)
            .filter(|_| !ports.passes(11, 12, &tcp(0x10)))
            .count();
        assert!((50..200).contains(&lost), "{lost}");
        assert!((0..1_000).all(|_| ports.passes(CLIENT, 12, &tcp(0x10))));
    }
}
