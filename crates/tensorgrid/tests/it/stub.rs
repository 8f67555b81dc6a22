//! A server that speaks the OpenAI API over TCP, and misbehaves on demand.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// What a stub does with requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Answers.
    Right,
    /// Refuses every call, its list of models too.
    Down,
    /// Lists another model.
    OtherModel,
    /// Takes a request and says nothing.
    Hangs,
    /// Answers what is no JSON.
    Rubbish,
    /// Answers JSON that is none of the API.
    OtherJson,
    /// Answers more bytes than anybody reads.
    Oversized,
    /// Streams without an end.
    Endless,
    /// Ends in the middle of a stream.
    Breaks,
    /// Says that the request is wrong.
    Refuses,
    /// Says that there are far more tokens than there can be.
    Exaggerates,
}

#[derive(Debug)]
struct StubState {
    behaviour: Behaviour,
    requests: Vec<Value>,
    keys: Vec<String>,
}

/// A stub and what it was asked.
#[derive(Debug, Clone)]
pub(crate) struct StubServer {
    address: SocketAddr,
    state: Arc<Mutex<StubState>>,
}

impl StubServer {
    /// Listens on a free port and serves `model`.
    pub(crate) fn start(model: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(StubState {
            behaviour: Behaviour::Right,
            requests: Vec::new(),
            keys: Vec::new(),
        }));
        let stub = Self { address, state };
        let (serving, model) = (stub.clone(), model.to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (serving, model) = (serving.clone(), model.clone());
                // A connection that breaks is the caller's affair.
                std::thread::spawn(move || serving.connection(&stream.unwrap(), &model));
            }
        });
        stub
    }

    /// The base of its API.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn behave(&self, behaviour: Behaviour) {
        self.state.lock().unwrap().behaviour = behaviour;
    }

    /// What it was asked so far, its list of models left out.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.state.lock().unwrap().requests.clone()
    }

    /// The keys that came with requests.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.state.lock().unwrap().keys.clone()
    }

    fn connection(&self, stream: &TcpStream, model: &str) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if reader.read_line(&mut head).ok()? == 0 {
                    return None;
                }
            }
            let lower = head.to_lowercase();
            let field = |name: &str| {
                let line = lower.lines().find_map(|line| line.strip_prefix(name));
                line.map(|it| it.trim().to_owned())
            };
            let length: usize = field("content-length:").map_or(0, |it| it.parse().unwrap());
            let mut body = vec![0; length];
            reader.read_exact(&mut body).ok()?;
            if let Some(key) = field("authorization:") {
                self.state.lock().unwrap().keys.push(key);
            }
            let path = head.split(' ').nth(1)?.to_owned();
            self.answer(&mut stream.try_clone().ok()?, (&path, &body), model)?;
        }
    }

    fn answer(
        &self,
        stream: &mut TcpStream,
        (path, body): (&str, &[u8]),
        model: &str,
    ) -> Option<()> {
        let behaviour = self.state.lock().unwrap().behaviour;
        if behaviour == Behaviour::Down {
            return whole(stream, 503, "down");
        }
        if path == "/v1/models" {
            let name = match behaviour {
                Behaviour::OtherModel => "another",
                _ => model,
            };
            let list = json!({"object": "list", "data": [{"id": "x"}, {"id": name}]});
            return whole(stream, 200, &list.to_string());
        }
        let asked: Value = serde_json::from_slice(body).ok()?;
        self.state.lock().unwrap().requests.push(asked.clone());
        match behaviour {
            Behaviour::Hangs => {
                std::thread::sleep(Duration::from_secs(120));
                return None;
            }
            Behaviour::Rubbish => return whole(stream, 200, "<html>rubbish"),
            Behaviour::OtherJson => return whole(stream, 200, "[1, 2]"),
            Behaviour::Oversized => return whole(stream, 200, &"x".repeat(4 << 20)),
            Behaviour::Refuses => {
                let error = json!({"error": {"message": "the context is too small for this"}});
                return whole(stream, 400, &error.to_string());
            }
            _ => {}
        }
        if path.ends_with("/embeddings") {
            return whole(stream, 200, &embedding(&asked).to_string());
        }
        let written = Written::of(path, &asked, behaviour == Behaviour::Exaggerates);
        match asked["stream"] == true {
            true => written.stream(stream, behaviour),
            false => whole(stream, 200, &written.whole().to_string()),
        }
    }
}

/// A vector for each text.
fn embedding(asked: &Value) -> Value {
    let texts = asked["input"].as_array().cloned();
    let texts = texts.unwrap_or_else(|| vec![asked["input"].clone()]);
    let data = texts.iter().enumerate().map(|(index, text)| {
        let length = text.as_str().unwrap_or_default().len();
        json!({"object": "embedding", "index": index, "embedding": [length, 1.0]})
    });
    json!({
        "object": "list", "data": data.collect::<Vec<_>>(), "model": "m",
        "usage": {"prompt_tokens": texts.len(), "total_tokens": texts.len()},
    })
}

/// What a stub writes: the words of what it was told, from the last to the first.
struct Written {
    is_chat: bool,
    words: Vec<String>,
    finish: &'static str,
    usage: Value,
    tools: bool,
}

impl Written {
    fn of(path: &str, asked: &Value, exaggerates: bool) -> Self {
        let is_chat = path.ends_with("/chat/completions");
        let last = asked["messages"].as_array().and_then(|it| it.last());
        let text = match last {
            Some(message) => message["content"].as_str(),
            None => asked["prompt"].as_str(),
        };
        let told: Vec<&str> = text.unwrap_or_default().split_whitespace().collect();
        let most = asked["max_tokens"].as_u64().unwrap_or(u64::MAX);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let words: Vec<String> = told
            .iter()
            .rev()
            .take(most)
            .map(|it| format!("{it} "))
            .collect();
        let usage = match exaggerates {
            true => json!({"prompt_tokens": 900_000_000, "completion_tokens": 900_000_000_000_u64}),
            false => json!({"prompt_tokens": told.len() + 2, "completion_tokens": words.len()}),
        };
        Self {
            is_chat,
            finish: if told.len() > most { "length" } else { "stop" },
            tools: asked["tools"].is_array(),
            words,
            usage,
        }
    }

    fn calls(&self) -> Value {
        json!([{"index": 0, "id": "call-1", "type": "function",
            "function": {"name": "look", "arguments": "{\"at\":1}"}}])
    }

    fn whole(&self) -> Value {
        let text = self.words.concat();
        let choice = match (self.is_chat, self.tools) {
            (true, true) => json!({"index": 0, "finish_reason": "tool_calls",
                "message": {"role": "assistant", "content": null, "tool_calls": self.calls()}}),
            (true, false) => json!({"index": 0, "finish_reason": self.finish,
                "message": {"role": "assistant", "content": text}}),
            (false, _) => json!({"index": 0, "finish_reason": self.finish, "text": text}),
        };
        json!({"id": "x", "object": "y", "created": 1, "model": "its own", "choices": [choice],
            "usage": self.usage})
    }

    fn piece(&self, text: &str, finish: Option<&str>) -> Value {
        let choice = match self.is_chat {
            true => json!({"index": 0, "delta": {"content": text}, "finish_reason": finish}),
            false => json!({"index": 0, "text": text, "finish_reason": finish}),
        };
        json!({"id": "x", "choices": [choice], "usage": null})
    }

    fn stream(&self, stream: &mut TcpStream, behaviour: Behaviour) -> Option<()> {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).ok()?;
        let mut say = |text: &str| {
            let chunk = format!("{:x}\r\n{text}\r\n", text.len());
            stream.write_all(chunk.as_bytes()).ok()
        };
        for word in &self.words {
            say(&format!("data: {}\n\n", self.piece(word, None)))?;
            std::thread::sleep(Duration::from_millis(5));
        }
        match behaviour {
            Behaviour::Endless => loop {
                say(&format!("data: {}\n\n", self.piece("more ", None)))?;
            },
            Behaviour::Breaks => return None,
            _ => {}
        }
        say(&format!("data: {}\n\n", self.piece("", Some(self.finish))))?;
        let usage = json!({"id": "x", "choices": [], "usage": self.usage});
        say(&format!("data: {usage}\n\n"))?;
        say("data: [DONE]\n\n")?;
        say("")
    }
}

fn whole(stream: &mut TcpStream, status: u16, body: &str) -> Option<()> {
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()
}
