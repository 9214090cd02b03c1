import CloakroomCore

/// A request that breaks a statement.
struct Counterexample: Encodable {
    let method: String
    /// Absent without `Host`.
    let host: String?
    let path: String
    /// The session of a cookie; absent without one.
    let session: String?
    /// What `Authorization` contains; absent without one.
    let authorization: String?
    /// The origin of the page that causes it; absent for the user or the gateway's own pages.
    let origin: String?
    /// What happens to it, for readers.
    let outcome: String
    /// The route that serves it; absent if none does.
    let route: String?
    /// The upstream that receives it.
    let upstream: String?
    /// The request as a command line; `TICKET` is a session cookie, `TOKEN` an access token or what the
    /// upstream verifies.
    let curl: String

    init(
        method: String, host: String?, path: String, _ state: SessionClasses.State, _ origin: String?,
        _ kind: CrossSitePolicy.RequestKind, outcome: String, _ service: Proof.Service?, _ tables: DecisionTables
    ) {
        (self.method, self.host, self.path, self.origin) = (method, host, path, origin)
        let isField = state.credential != .none && state.credential != .cookie
        session = state.credential == .cookie ? state.description : nil
        authorization = isField ? state.description : nil
        self.outcome = kind == .tunnel ? "\(outcome), as a WebSocket" : outcome
        (route, upstream) = (service?.route.name, service?.upstream)
        let configuration = tables.configuration
        let listener =
            configuration.listeners(serving: host, tables.table.groups).first ?? configuration.listeners.first
        var words = ["curl", "-i"]
        if method == "HEAD" { words.append("--head") } else if method != "GET" { words += ["-X", method] }
        let port = listener.map { ":\($0.address.port)" } ?? ""
        let address = listener.map { ["0.0.0.0", "::"].contains($0.address.host) ? "127.0.0.1" : $0.address.host }
        if let address, host != "localhost" {
            words += ["--connect-to", "::\(address.contains(":") ? "[\(address)]" : address)\(port)"]
        }
        // Later versions require a host.
        if host == nil { words += ["--http1.0", "-H", "Host:"] }
        if session != nil {
            words += ["-b", "\(configuration.session.cookie.name)=TICKET"]
            if let field = configuration.crossSite.requiredField, origin == nil {
                words += ["-H", Self.quoted("\(field.name): \(field.value)")]
            }
        }
        if isField {
            let isBasic = state.credential == .basic || origin.map { !tables.addsFields($0, kind) } ?? false
            words += ["-H", Self.quoted("Authorization: \(isBasic ? "Basic" : "Bearer") TOKEN")]
        }
        if kind == .tunnel {
            words += ["--http1.1", "-H", "'Connection: Upgrade'", "-H", "'Upgrade: websocket'"]
            words += ["-H", "'Sec-WebSocket-Version: 13'", "-H", "'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=='"]
        }
        if let origin { words += ["-H", Self.quoted("Origin: \(origin)"), "-H", "'Sec-Fetch-Site: cross-site'"] }
        let authority = host ?? address.map { $0.contains(":") ? "[\($0)]" : $0 } ?? "localhost"
        words.append(Self.quoted("\(listener?.tls == nil ? "http" : "https")://\(authority)\(port)\(path)"))
        curl = words.joined(separator: " ")
    }

    /// A word of a shell.
    private static func quoted(_ text: String) -> String { "'\(text.replacing("'", with: "'\\''"))'" }

    var sentence: String {
        let page = origin.map { ", from a page of \($0)" } ?? ""
        let place = host.map { "at \($0)" } ?? "without a host"
        return "\(method) \(path) \(place) \(outcome), with \(session ?? authorization ?? "no session")\(page)".escaped
    }
}

/// `prove`.
struct ProofDocument: Encodable {
    struct Entry: Encodable {
        let name: String
        let holds: Bool
        /// The request that breaks it; absent if it holds.
        let counterexample: Counterexample?
    }

    let configuration: String
    /// The older configuration; absent without one.
    let comparedWith: String?
    let valid = true
    let statements: [Entry]
}

extension CommandReport {
    /// `prove`: whether the statements of a configuration hold for all requests. Exits with 3 if one does not, and with 1
    /// if one is vacuous.
    /// - Parameter other: An older configuration; that a change from it opens nothing is then a further statement.
    public static func prove(_ sources: ConfigSources, comparedWith other: ConfigSources? = nil) -> CommandReport {
        guard let other else { return on(sources) { prove(sources, $0, nil, nil) } }
        return on(other) { old in on(sources) { prove(sources, $0, other.name, old.configuration) } }
    }

    private static func prove(
        _ sources: ConfigSources, _ config: LoadedConfig, _ other: String?, _ older: GatewayConfiguration?
    ) -> CommandReport {
        func failure(_ findings: [ConfigFinding]) -> CommandReport {
            CommandReport(sources, rejectedBecauseOf: config.problems(findings))
        }
        guard !config.statements.isEmpty || older != nil else {
            let message = "required key missing: there is nothing to prove"
            return failure([
                ConfigFinding(key: ["prove"], message: message, suggestion: "write a statement, or --against OTHER")
            ])
        }
        let proof: Proof
        let verdicts: [Proof.Verdict]
        do throws(TooManyClasses) {
            proof = try Proof(config.statements, about: config.configuration, since: older)
            verdicts = try proof.verdicts()
        } catch {
            return failure([ConfigFinding(key: ["prove"], message: error.message, suggestion: error.suggestion)])
        }
        let findings = verdicts.enumerated().compactMap { index, verdict -> ConfigFinding? in
            guard case .vacuous(let message, let suggestion) = verdict else { return nil }
            return ConfigFinding(key: ["prove", "\(index)", "name"], message: message, suggestion: suggestion)
        }
        guard findings.isEmpty else { return failure(findings) }
        let entries = zip(proof.statements, verdicts).map { statement, verdict in
            let counterexample: Counterexample? = if case .fails(let request) = verdict { request } else { nil }
            return ProofDocument.Entry(
                name: statement.name, holds: counterexample == nil, counterexample: counterexample)
        }
        let lines = entries.flatMap { entry in
            guard let request = entry.counterexample else { return ["holds: \(entry.name)"] }
            return ["fails: \(entry.name)", "  \(request.sentence)", "  \(request.curl)"]
        }
        return CommandReport(
            lines: lines,
            document: ProofDocument(configuration: sources.name, comparedWith: other, statements: entries),
            exitCode: entries.allSatisfy(\.holds) ? 0 : 3)
    }
}
