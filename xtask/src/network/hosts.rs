//! The hosts of a run: a network namespace each, or all of them this machine's loopback.
//!
//! A host has two devices: one on the bridge that joins all hosts (`eth0`, [`UNDERLAY`]), which carries nothing but the
//! datagrams of the other (`vx0`, [`OVERLAY`]), a VXLAN whose only neighbour is the [switch](super::switch). Processes speak
//! over the second alone. The bridge lies in a namespace too, so nothing of this leaves the namespaces.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// A host, by the last number of its addresses.
pub(crate) type Host = u8;

/// Where the bridge and the switch are.
pub(crate) const SWITCH: Host = 1;

/// Who orders and watches.
pub(crate) const CLIENT: Host = 2;

/// The first validator, gateway, provider and cheating provider; the next ones follow.
pub(crate) const VALIDATOR: Host = 11;
pub(crate) const GATEWAY: Host = 21;
pub(crate) const PROVIDER: Host = 31;
pub(crate) const CHEAT: Host = 41;

/// The provider into whose host no connection comes.
pub(crate) const FIREWALLED: Host = PROVIDER;

/// Port of VXLAN.
pub(crate) const VXLAN_PORT: u16 = 4789;

/// Largest packet between hosts, as on the internet, and on the bridge, with VXLAN around it.
const BYTES: &str = "1500";
const BRIDGE_BYTES: &str = "2000";

/// Addresses that differ in their last number. Those of these networks are set aside for tests (RFC 2544).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subnet([u8; 3]);

/// What the switch is reached by.
pub(crate) const UNDERLAY: Subnet = Subnet([198, 18, 0]);

/// What hosts reach each other by.
pub(crate) const OVERLAY: Subnet = Subnet([198, 19, 0]);

impl Subnet {
    /// The address of a host.
    pub(crate) const fn of(self, host: Host) -> Ipv4Addr {
        let [a, b, c] = self.0;
        Ipv4Addr::new(a, b, c, host)
    }
}

/// What the names of all namespaces of all runs begin with; the id of the run's process follows.
const PREFIX: &str = "tgnet";

/// The namespaces of a run.
#[derive(Debug, Clone)]
pub(crate) struct Spaces {
    prefix: String,
}

impl Spaces {
    /// Those of the run of this process.
    pub(crate) fn of_this_process() -> Self {
        Self::named(&format!("{PREFIX}{}-", std::process::id()))
    }

    /// Those whose names begin so.
    pub(crate) fn named(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
        }
    }

    /// What all names begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Makes the bridge and the hosts.
    ///
    /// # Errors
    /// If this kernel or these rights do not allow it.
    pub(crate) fn make(&self, hosts: &[Host]) -> Result<()> {
        let switch = self.name(SWITCH);
        ip(&["netns", "add", &switch])?;
        let inside = ["-n", switch.as_str()];
        let place = format!("{}/24", UNDERLAY.of(SWITCH));
        let bridge = ["link", "add", "br0", "mtu", BRIDGE_BYTES, "type", "bridge"];
        ip(&[&inside[..], &bridge].concat())?;
        ip(&[&inside[..], &["addr", "add", &place, "dev", "br0"]].concat())?;
        ip(&[&inside[..], &["link", "set", "br0", "up"]].concat())?;
        hosts.iter().try_for_each(|&host| self.make_host(host))
    }

    fn make_host(&self, host: Host) -> Result<()> {
        let (name, switch, port) = (self.name(host), self.name(SWITCH), port(host));
        ip(&["netns", "add", &name])?;
        let here = |arguments: &[&str]| ip(&[&["-n", name.as_str()], arguments].concat());
        let there = |arguments: &[&str]| ip(&[&["-n", switch.as_str()], arguments].concat());
        here(&["link", "set", "lo", "up"])?;
        let pair = ["link", "add", &port, "mtu", BRIDGE_BYTES, "type", "veth"];
        let peer = ["peer", "name", "eth0", "mtu", BRIDGE_BYTES, "netns", &name];
        there(&[&pair[..], &peer].concat())?;
        there(&["link", "set", &port, "master", "br0", "up"])?;
        let [under, over] = [UNDERLAY, OVERLAY].map(|it| format!("{}/24", it.of(host)));
        here(&["addr", "add", &under, "dev", "eth0"])?;
        here(&["link", "set", "eth0", "up"])?;
        let hardware = format!("02:00:00:00:00:{host:02x}");
        let (remote, vxlan) = (UNDERLAY.of(SWITCH).to_string(), VXLAN_PORT.to_string());
        let device = ["link", "add", "vx0", "address", &hardware, "mtu", BYTES];
        let tunnel = [
            "type", "vxlan", "id", "7", "remote", &remote, "dev", "eth0", "dstport", &vxlan,
        ];
        here(&[&device[..], &tunnel].concat())?;
        // One packet a datagram: the switch would not know what to do with several in one.
        here(&[
            "link",
            "set",
            "vx0",
            "gso_max_segs",
            "1",
            "addrgenmode",
            "none",
            "up",
        ])?;
        here(&["addr", "add", &over, "dev", "vx0"])
    }

    /// A command that runs in a host.
    pub(crate) fn command(&self, host: Host, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.name(host)])
            .arg(program);
        command
    }

    /// Pulls the cable of a host, or puts it in again.
    pub(crate) fn connect(&self, host: Host, cable: Cable) -> Result<()> {
        let state = match cable {
            Cable::In => "up",
            Cable::Out => "down",
        };
        ip(&["-n", &self.name(SWITCH), "link", "set", &port(host), state])
    }

    /// Ends every process in the namespaces and removes them.
    pub(crate) fn remove(&self) -> Result<()> {
        for name in names()?.iter().filter(|it| it.starts_with(&self.prefix)) {
            for process in ip_lines(&["netns", "pids", name])? {
                // It may have ended meanwhile.
                let _ = Command::new("kill").args(["-9", &process]).status();
            }
            ip(&["netns", "del", name])?;
        }
        Ok(())
    }

    fn name(&self, host: Host) -> String {
        format!("{}{host}", self.prefix)
    }
}

/// Whether the cable of a host is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cable {
    /// It hears and is heard.
    In,
    /// It does not.
    Out,
}

/// Removes what runs left behind whose process is gone.
///
/// # Errors
/// If something cannot be removed.
pub(crate) fn remove_stale() -> Result<()> {
    let Ok(names) = names() else {
        return Ok(());
    };
    for name in names {
        let run = name.strip_prefix(PREFIX).and_then(|it| it.split_once('-'));
        let Some((process, _)) = run else { continue };
        if !fs::exists(format!("/proc/{process}"))? {
            Spaces::named(&format!("{PREFIX}{process}-")).remove()?;
        }
    }
    Ok(())
}

/// The names of all namespaces of this machine.
fn names() -> Result<Vec<String>> {
    let first = |line: &String| line.split(' ').next().map(str::to_owned);
    let lines = ip_lines(&["netns", "list"])?;
    Ok(lines.iter().filter_map(first).collect())
}

/// The other end of a host's cable.
fn port(host: Host) -> String {
    format!("port{host}")
}

fn ip(arguments: &[&str]) -> Result<()> {
    ip_lines(arguments).map(|_| ())
}

/// The lines that `ip` prints.
fn ip_lines(arguments: &[&str]) -> Result<Vec<String>> {
    let output = Command::new("ip").args(arguments).output();
    let output = output.context("there is no `ip`: install iproute2")?;
    ensure!(
        output.status.success(),
        "ip {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().map(str::to_owned).collect())
}
