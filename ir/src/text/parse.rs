//! The parser: reads text into a verified module.
//!
//! It builds through [`Builder`], so each equation is checked at its line, against the types written there. The
//! verifier then checks every function as a whole. The parser reports all independent errors: after an error it goes on
//! with the next line, and the values defined on the wrong line are not checked further, so that one mistake gives one
//! error.

use crate::lang::builder::{Builder, Draft};
use crate::lang::function::{Atom, FuncId};
use crate::lang::host::Host;
use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::phase::{Origin, Phase};
use crate::lang::problem::{Kind, Problem};
use crate::lang::spelling::closest_name;
use crate::lang::types::{ArrayType, Dtype, Shape, Type};
use crate::lang::verify::verify;
use crate::lex::{Place, Tok, Token, lex};
use crate::prim::{Attr, Attributes, Op};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::fmt;

/// An error in the text of a program, with its position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// The line of the text, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The error at that position.
    pub problem: Problem,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.problem)
    }
}

impl std::error::Error for ParseError {}

/// Parses a module: functions, each of which refers only to functions above it.
///
/// # Errors
/// Returns all errors in the order of the text; at least one.
pub fn parse_module(text: &str) -> Result<Module, Vec<ParseError>> {
    let mut p = Parser::new(text);
    let mut module = Module::new();
    while p.tok() != Tok::End {
        if let Err(e) = p.function(&mut module) {
            p.errors.push(e);
            p.skip_to(|t| t.first && matches!(t.tok, Tok::Word("func")));
        }
    }
    p.errors.sort_by_key(|e| (e.line, e.column));
    if p.errors.is_empty() { Ok(module) } else { Err(p.errors) }
}

/// Parses a type, such as `f64[3,4]`.
///
/// # Errors
/// An error that names the expected and the actual token.
pub fn parse_type(text: &str) -> Result<Type, ParseError> {
    let mut p = Parser::new(text);
    let ty = p.ty(0)?;
    if p.tok() == Tok::End { Ok(ty) } else { Err(p.expected("the end of the type")) }
}

type Parsed<T> = Result<T, ParseError>;

/// The deepest nesting of tape types, so that no text overflows the stack.
const MAX_NESTING: usize = 64;

struct Parser<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
    /// The functions parsed so far, by name; `None` for a function with errors.
    functions: HashMap<&'t str, Option<FuncId>>,
    /// The hosts (Rust functions that programs call) by name; none of them has its Rust function yet.
    hosts: HashMap<&'t str, Host>,
    errors: Vec<ParseError>,
}

/// The function whose text is being parsed.
struct Body<'t> {
    draft: Draft,
    values: HashMap<&'t str, Defined>,
    /// Per equation: its position in the text.
    places: Vec<Place>,
    /// The phase of the next equations, as the last phase line above them set it.
    phase: Phase,
}

#[derive(Clone, Copy)]
enum Defined {
    Good(Atom),
    /// A value defined on a line with an error; reads of it are not checked.
    Wrong,
}

/// A parameter or an output in the text: its name and its type, each with its position.
struct Binder<'t> {
    name: &'t str,
    ty: Type,
    name_at: Place,
    type_at: Place,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Parser<'t> {
        Parser {
            tokens: lex(text),
            at: 0,
            functions: HashMap::new(),
            hosts: HashMap::new(),
            errors: Vec::new(),
        }
    }

    // -- Functions ------------------------------------------------------------------------------

    /// Parses a function: `func @name(params; linear params) -> (types) { equations return results }`.
    fn function(&mut self, module: &mut Module) -> Parsed<()> {
        let errors = self.errors.len();
        self.word("func")?;
        let place = self.place();
        let Tok::Func(name) = self.tok() else { return Err(self.expected("`@` and a name")) };
        self.next();
        let duplicate = self.functions.insert(name, None).is_some();
        if duplicate {
            self.errors.push(parse_error(place, format!("there are two functions `@{name}`")));
        }
        let draft = Draft::new(name);
        let mut body =
            Body { draft, values: HashMap::new(), places: Vec::new(), phase: Phase::FORWARD };
        let result_types = self.signature(&mut body)?;
        while !matches!(self.tok(), Tok::Word("return")) {
            let start = self.place();
            let read = match self.tok() {
                Tok::Word("forward" | "reverse") => self.phase().map(|phase| body.phase = phase),
                _ => self.equation(module, &mut body),
            };
            if let Err(e) = read {
                self.errors.push(e);
                self.skip_line(start);
            }
            if matches!(self.tok(), Tok::End | Tok::Word("func") | Tok::Sign('}')) {
                return Err(self.expected("`return`"));
            }
        }
        let results = self.results(&body, &result_types)?;
        self.sign('}')?;
        if self.errors.len() > errors {
            return Ok(());
        }
        let id = body.draft.finish(module, results).map_err(|problem| error(place, problem))?;
        for broken in verify(module, id) {
            let at = broken.equation.and_then(|i| body.places.get(i)).copied();
            self.errors.push(error(at.unwrap_or(place), broken.problem));
        }
        self.functions.insert(name, Some(id));
        Ok(())
    }

    /// Parses a signature, `(params; linear params) -> (types) {`; returns the types of the results.
    fn signature(&mut self, body: &mut Body<'t>) -> Parsed<Vec<Type>> {
        self.sign('(')?;
        let mut linear = false;
        while self.tok() != Tok::Sign(')') {
            if !linear && self.tok() == Tok::Sign(';') {
                self.next();
                linear = true;
            }
            let p = self.binder()?;
            let atom = if linear { body.draft.linear_param(p.ty) } else { body.draft.param(p.ty) };
            self.define(body, p.name, p.name_at, Defined::Good(atom));
            match self.tok() {
                Tok::Sign(',') => self.next(),
                Tok::Sign(')') => {}
                Tok::Sign(';') if !linear => {}
                _ => return Err(self.expected("`,`, `;` or `)`")),
            }
        }
        self.next();
        if self.tok() != Tok::Arrow {
            return Err(self.expected("`->` and the types of the results"));
        }
        self.next();
        self.sign('(')?;
        let types = self.list(')', |p| p.ty(0))?;
        self.sign('{')?;
        Ok(types)
    }

    /// Parses `return` with the results, and checks their types against those in the signature.
    fn results(&mut self, body: &Body<'t>, types: &[Type]) -> Parsed<Vec<Atom>> {
        let place = self.place();
        self.word("return")?;
        let mut results = Vec::new();
        let operands = self.operands()?;
        if operands.len() != types.len() {
            let want = count(types.len(), "result");
            let message = format!("expected {want}, found {}", operands.len());
            self.errors.push(parse_error(place, message));
        }
        for (i, (place, operand)) in operands.into_iter().enumerate() {
            let Some(atom) = self.resolve(body, place, operand) else { continue };
            let found = body.draft.type_of(atom);
            if types.get(i).is_some_and(|ty| *ty != found) {
                let message = format!("expected a result of type {}, found {found}", types[i]);
                self.errors.push(parse_error(place, message));
            }
            results.push(atom);
        }
        Ok(results)
    }

    /// Parses a phase line, such as `reverse 2 transposed rematerialized:`.
    fn phase(&mut self) -> Parsed<Phase> {
        let mut phase = Phase { order: u8::from(self.taken("reverse")), ..Phase::FORWARD };
        if phase.order == 0 {
            self.word("forward")?;
        } else if let Tok::Number(_) = self.tok() {
            let error = self.expected("an order between 1 and 255");
            let order = u8::try_from(self.integer()?).ok().filter(|order| *order > 0);
            phase.order = order.ok_or(error)?;
        }
        phase.transposed = self.taken("transposed");
        phase.rematerialized = self.taken("rematerialized");
        self.sign(':')?;
        Ok(phase)
    }

    // -- Equations ------------------------------------------------------------------------------

    /// Parses an equation, such as `%2: f64[3] = mul %0, %1`.
    fn equation(&mut self, module: &mut Module, body: &mut Body<'t>) -> Parsed<()> {
        let place = self.place();
        let mut binders: SmallVec<[Binder<'t>; 1]> = SmallVec::new();
        if matches!(self.tok(), Tok::Value(_)) {
            loop {
                binders.push(self.binder()?);
                if self.tok() != Tok::Sign(',') {
                    break;
                }
                self.next();
            }
        }
        let right = if binders.is_empty() { Ok(()) } else { self.sign('=') };
        let outputs = match right.and_then(|()| self.right_side(module, body, place, &binders)) {
            Ok(outputs) => outputs,
            Err(e) => {
                self.errors.push(e);
                self.skip_line(place);
                None
            }
        };
        for (i, binder) in binders.iter().enumerate() {
            let defined = match &outputs {
                Some(atoms) => Defined::Good(atoms[i]),
                None => Defined::Wrong,
            };
            self.define(body, binder.name, binder.name_at, defined);
        }
        Ok(())
    }

    /// Parses the right-hand side of an equation, such as `mul %0, %1`, and emits it. Returns `None` if an operand
    /// or a function has an error, which is reported already.
    fn right_side(
        &mut self,
        module: &mut Module,
        body: &mut Body<'t>,
        start: Place,
        binders: &[Binder<'t>],
    ) -> Parsed<Option<SmallVec<[Atom; 1]>>> {
        let errors = self.errors.len();
        let place = self.place();
        let op = self.op()?;
        let operands: SmallVec<[Option<Atom>; 2]> =
            self.operands()?.into_iter().map(|(at, o)| self.resolve(body, at, o)).collect();
        let operands: Option<SmallVec<[Atom; 2]>> = operands.into_iter().collect();
        let (Some(op), Some(operands)) = (op, operands) else { return Ok(None) };
        if self.errors.len() > errors {
            return Ok(None);
        }
        let name = op.name();
        let b = Builder::new(module, &mut body.draft);
        b.at(Origin { loc: None, phase: body.phase });
        let emitted = b.try_emit(op, &operands);
        let outputs = emitted.map_err(|(problem, _)| error(place, problem))?;
        body.places.push(start);
        if outputs.len() != binders.len() {
            let has = count(outputs.len(), "output");
            let message = format!("`{name}` has {has}, the text names {}", binders.len());
            return Err(parse_error(start, message));
        }
        for (atom, binder) in outputs.iter().zip(binders) {
            let inferred = body.draft.type_of(*atom);
            if inferred != binder.ty {
                let message = format!("`{name}` gives {inferred}, the text says {}", binder.ty);
                self.errors.push(parse_error(binder.type_at, message));
            }
        }
        Ok(Some(outputs))
    }

    /// Parses a primitive with its attributes, such as `reduce_sum{axes=[0]}`. Returns `None` if a function among
    /// them has an error, which is reported already.
    fn op(&mut self) -> Parsed<Option<Op>> {
        let place = self.place();
        let Tok::Word(name) = self.tok() else {
            return Err(self.expected("the name of a primitive"));
        };
        self.next();
        let mut names: Vec<(&str, Place)> = Vec::new();
        let mut entries = Vec::new();
        let mut known = true;
        if self.tok() == Tok::Sign('{') {
            self.next();
            let attributes = self.list('}', |p| {
                let place = p.place();
                let Tok::Word(name) = p.tok() else {
                    return Err(p.expected("the name of an attribute"));
                };
                p.next();
                p.sign('=')?;
                Ok((name, place, p.attribute()?))
            })?;
            for (name, place, value) in attributes {
                if names.iter().any(|(n, _)| *n == name) {
                    return Err(parse_error(place, format!("attribute `{name}` is given twice")));
                }
                names.push((name, place));
                match value {
                    Some(value) => entries.push((name.to_owned(), value)),
                    None => known = false,
                }
            }
        }
        if !known {
            return Ok(None);
        }
        let mut attributes = Attributes::new(entries);
        let op = match Op::parse(name, &mut attributes) {
            None => {
                let problem = format!("there is no primitive `{name}`");
                return Err(did_you_mean(place, problem, name, &primitive_names()));
            }
            Some(Err(mut problem)) => {
                if let Some(leftover) = attributes.leftover() {
                    problem.help = format!("found `{leftover}`");
                }
                return Err(error(place, problem));
            }
            Some(Ok(op)) => op,
        };
        if let Some(leftover) = attributes.leftover() {
            let place = names.iter().find(|(n, _)| *n == leftover).map_or(place, |(_, at)| *at);
            let known: Vec<String> = op.attributes().iter().map(|(n, _)| (*n).into()).collect();
            let problem = format!("`{name}` has no attribute `{leftover}`");
            return Err(did_you_mean(place, problem, leftover, &known));
        }
        Ok(Some(op))
    }

    /// Parses the value of an attribute; returns `None` for a function that has an error, which is reported
    /// already.
    fn attribute(&mut self) -> Parsed<Option<Attr>> {
        let value = match self.tok() {
            Tok::Number(_) => return Ok(Some(Attr::Int(self.integer()?))),
            Tok::Sign('[') => {
                self.next();
                return self.attributes();
            }
            Tok::Func(_) => return Ok(self.function_named()?.map(Attr::Func)),
            Tok::Host(name) => {
                Attr::Host(self.hosts.entry(name).or_insert_with(|| Host::unbound(name)).clone())
            }
            Tok::Word("true") => Attr::Bool(true),
            Tok::Word("false") => Attr::Bool(false),
            Tok::Word(word) => match Dtype::from_name(word) {
                Some(dtype) => Attr::Dtype(dtype),
                None => Attr::Word(word.to_owned().into()),
            },
            Tok::Value(_) | Tok::Sign(_) | Tok::Arrow | Tok::Stray(_) | Tok::End => {
                return Err(self.expected("the value of an attribute"));
            }
        };
        self.next();
        Ok(Some(value))
    }

    /// Parses the items of a list of attribute values after `[`; all must have the kind of the first one.
    fn attributes(&mut self) -> Parsed<Option<Attr>> {
        Ok(match self.tok() {
            Tok::Func(_) => {
                let all = self.list(']', Parser::function_named)?;
                all.into_iter().collect::<Option<_>>().map(Attr::Funcs)
            }
            Tok::Word(word) if Dtype::from_name(word).is_some() => {
                Some(Attr::Types(self.list(']', Parser::array_type)?))
            }
            Tok::Word(_) => Some(Attr::Words(self.list(']', |p| {
                let Tok::Word(word) = p.tok() else { return Err(p.expected("a word")) };
                p.next();
                Ok(word.to_owned().into())
            })?)),
            Tok::Number(_)
            | Tok::Value(_)
            | Tok::Sign(_)
            | Tok::Arrow
            | Tok::Stray(_)
            | Tok::Host(_)
            | Tok::End => Some(Attr::Ints(self.list(']', Parser::integer)?)),
        })
    }

    /// Parses a function's name as an attribute, such as `@g`; returns `None` for a function that has an error,
    /// which is reported already.
    fn function_named(&mut self) -> Parsed<Option<FuncId>> {
        let place = self.place();
        let Tok::Func(name) = self.tok() else { return Err(self.expected("a function")) };
        let known = || self.functions.keys().map(|n| format!("@{n}")).collect::<Vec<_>>();
        let found = self.functions.get(name).copied().ok_or_else(|| {
            let problem = format!("`@{name}` is not defined before this line");
            did_you_mean(place, problem, &format!("@{name}"), &known())
        });
        self.next();
        found
    }

    /// Parses the operands: values and literals separated by commas, up to the end of the line.
    fn operands(&mut self) -> Parsed<SmallVec<[(Place, Tok<'t>); 2]>> {
        let mut operands = SmallVec::new();
        let operand = |t: &Token<'_>| match t.tok {
            Tok::Value(_) | Tok::Number(_) | Tok::Word("true" | "false") => !t.first,
            Tok::Word(_)
            | Tok::Func(_)
            | Tok::Host(_)
            | Tok::Sign(_)
            | Tok::Arrow
            | Tok::Stray(_)
            | Tok::End => false,
        };
        if !operand(&self.tokens[self.at]) {
            return match self.tok() {
                Tok::Sign('}') | Tok::End => Ok(operands),
                _ if self.tokens[self.at].first => Ok(operands),
                _ => Err(self.expected("an operand or the end of the line")),
            };
        }
        loop {
            let Token { tok, place, .. } = self.tokens[self.at];
            if !matches!(tok, Tok::Value(_) | Tok::Number(_) | Tok::Word("true" | "false")) {
                return Err(self.expected("an operand"));
            }
            operands.push((place, tok));
            self.next();
            if self.tok() != Tok::Sign(',') {
                break;
            }
            self.next();
        }
        let after = &self.tokens[self.at];
        if !after.first && after.tok != Tok::Sign('}') {
            return Err(self.expected("`,` or the end of the line"));
        }
        Ok(operands)
    }

    // -- Names ----------------------------------------------------------------------------------

    fn define(&mut self, body: &mut Body<'t>, name: &'t str, place: Place, defined: Defined) {
        if body.values.insert(name, defined).is_some() {
            self.errors.push(parse_error(place, format!("%{name} is defined twice")));
        }
    }

    /// Returns the atom of an operand. Returns `None` if the operand has an error; it is reported here, unless the
    /// line that defines the operand had one.
    fn resolve(&mut self, body: &Body<'t>, place: Place, operand: Tok<'t>) -> Option<Atom> {
        let literal = |text: &str| text.parse::<Literal>().map(Atom::Literal);
        let found = match operand {
            Tok::Value(name) => match body.values.get(name) {
                Some(Defined::Good(atom)) => return Some(*atom),
                Some(Defined::Wrong) => return None,
                None => Err(Problem::new(
                    Kind::Parse,
                    format!("%{name} is read before it is defined"),
                    "",
                )),
            },
            Tok::Number(text) | Tok::Word(text) => literal(text),
            other @ (Tok::Func(_)
            | Tok::Host(_)
            | Tok::Sign(_)
            | Tok::Arrow
            | Tok::Stray(_)
            | Tok::End) => {
                Err(Problem::new(Kind::Parse, format!("expected an operand, found {other}"), ""))
            }
        };
        found.map_err(|problem| self.errors.push(error(place, problem))).ok()
    }

    // -- Types ----------------------------------------------------------------------------------

    /// Parses a name with its type, such as `%2: f64[3]`.
    fn binder(&mut self) -> Parsed<Binder<'t>> {
        let name_at = self.place();
        let Tok::Value(name) = self.tok() else { return Err(self.expected("`%` and a name")) };
        self.next();
        self.sign(':')?;
        let type_at = self.place();
        Ok(Binder { name, name_at, type_at, ty: self.ty(0)? })
    }

    fn ty(&mut self, depth: usize) -> Parsed<Type> {
        match self.tok() {
            Tok::Word("tape") if depth < MAX_NESTING => {
                self.next();
                self.sign('<')?;
                Ok(Type::Tape(self.list('>', |p| p.ty(depth + 1))?))
            }
            _ => Ok(Type::Array(self.array_type()?)),
        }
    }

    fn array_type(&mut self) -> Parsed<ArrayType> {
        let dtype = match self.tok() {
            Tok::Word(word) => Dtype::from_name(word),
            _ => None,
        };
        let Some(dtype) = dtype else { return Err(self.expected("a type such as `f64[3,4]`")) };
        self.next();
        self.sign('[')?;
        let shape: Shape = self.list(']', Parser::natural)?.into();
        Ok(ArrayType { dtype, shape })
    }

    // -- Tokens ---------------------------------------------------------------------------------

    fn tok(&self) -> Tok<'t> {
        self.tokens[self.at].tok
    }

    fn place(&self) -> Place {
        self.tokens[self.at].place
    }

    fn next(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    /// Skips tokens up to one that `stop` accepts, or up to the end of the text.
    fn skip_to(&mut self, stop: impl Fn(&Token<'_>) -> bool) {
        while self.tok() != Tok::End && !stop(&self.tokens[self.at]) {
            self.next();
        }
    }

    /// Skips tokens up to the first one on a line below that of `start`.
    fn skip_line(&mut self, start: Place) {
        self.skip_to(|t| t.first && t.place.line > start.line);
    }

    fn expected(&self, what: &str) -> ParseError {
        parse_error(self.place(), format!("expected {what}, found {}", self.tok()))
    }

    fn sign(&mut self, c: char) -> Parsed<()> {
        if self.tok() != Tok::Sign(c) {
            return Err(self.expected(&format!("`{c}`")));
        }
        self.next();
        Ok(())
    }

    fn word(&mut self, word: &str) -> Parsed<()> {
        if !matches!(self.tok(), Tok::Word(w) if w == word) {
            return Err(self.expected(&format!("`{word}`")));
        }
        self.next();
        Ok(())
    }

    /// Skips the next token if it is the word `word`; returns whether it was.
    fn taken(&mut self, word: &str) -> bool {
        let taken = matches!(self.tok(), Tok::Word(w) if w == word);
        if taken {
            self.next();
        }
        taken
    }

    fn integer(&mut self) -> Parsed<i64> {
        let read = match self.tok() {
            Tok::Number(n) => n.parse().ok(),
            _ => None,
        };
        let n = read.ok_or_else(|| self.expected("an integer"))?;
        self.next();
        Ok(n)
    }

    fn natural(&mut self) -> Parsed<usize> {
        let error = self.expected("a natural number");
        usize::try_from(self.integer()?).map_err(|_| error)
    }

    /// Parses items separated by commas, up to and with the closing sign `close`.
    fn list<T>(
        &mut self,
        close: char,
        mut item: impl FnMut(&mut Parser<'t>) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        while self.tok() != Tok::Sign(close) {
            items.push(item(self)?);
            match self.tok() {
                Tok::Sign(',') => self.next(),
                Tok::Sign(c) if c == close => {}
                _ => return Err(self.expected(&format!("`,` or `{close}`"))),
            }
        }
        self.next();
        Ok(items)
    }
}

/// Returns a number with its noun, in the plural unless the number is 1: `1 output`, `2 outputs`.
fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

fn error(place: Place, problem: Problem) -> ParseError {
    ParseError { line: place.line, column: place.column, problem }
}

fn parse_error(place: Place, message: String) -> ParseError {
    error(place, Problem::new(Kind::Parse, message, ""))
}

/// Makes the error for an unknown name. The help names the most similar known name, if one is similar.
fn did_you_mean(place: Place, message: String, name: &str, known: &[String]) -> ParseError {
    let similar = closest_name(name, known.iter().map(String::as_str));
    let help = similar.map(|k| format!("did you mean `{k}`?")).unwrap_or_default();
    error(place, Problem::new(Kind::Parse, message, help))
}

fn primitive_names() -> Vec<String> {
    // Cut the attributes off: the catalogue lists names with their attributes, such as `reduce_sum{axes}`.
    let name = |d: crate::prim::Doc| d.name.split('{').next().unwrap_or_default().to_owned();
    Op::docs().into_iter().map(name).collect()
}
