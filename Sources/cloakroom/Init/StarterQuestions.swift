import Foundation

/// A question about one value of the configuration, asked while ``isOpen(_:)`` is true.
struct StarterQuestion {
    let text: String
    /// What an empty line means; `nil` if a value is required.
    let standard: String?
    /// The keys of the value below `upstreams.api`, the most precise last.
    let keys: [String]
    /// The value; `nil` for the default.
    let current: (StarterConfiguration) -> String?
    let isNeeded: (StarterConfiguration) -> Bool
    /// Sets the value; `nil` sets the default.
    /// - Returns: What is wrong with the text; `nil` if the configuration decides.
    let set: (inout StarterConfiguration, String?) -> String?

    func isOpen(_ starter: StarterConfiguration) -> Bool { current(starter) == nil && isNeeded(starter) }

    /// Whether a line is the word that the question shows for its default.
    func isNone(_ line: String) -> Bool { line.lowercased() == "none" && standard?.hasPrefix("none") == true }

    /// A question about a text.
    private static func value(
        _ text: String, default standard: String?, _ value: WritableKeyPath<StarterConfiguration, String?>,
        _ keys: [String] = [], if isNeeded: @escaping (StarterConfiguration) -> Bool = { _ in true }
    ) -> StarterQuestion {
        StarterQuestion(text: text, standard: standard, keys: keys, current: { $0[keyPath: value] }, isNeeded: isNeeded)
        {
            $0[keyPath: value] = $1
            return nil
        }
    }

    /// A question about a call that an API with a sign-in call may have.
    private static func call(
        _ text: String, default standard: String, _ method: String,
        _ value: WritableKeyPath<StarterConfiguration, StarterConfiguration.Call?>, _ key: String
    ) -> StarterQuestion {
        StarterQuestion(
            text: text, standard: standard, keys: keys(ofCall: key), current: { $0[keyPath: value]?.text },
            isNeeded: hasCall
        ) {
            $0[keyPath: value] = $1.flatMap { StarterConfiguration.Call($0, method: method) }
            return $1 != nil && $0[keyPath: value] == nil ? "write a method and a path, such as \(method) /path" : nil
        }
    }

    /// The question that decides about most others.
    private static func signIn(default standard: String?, if isNeeded: @escaping (StarterConfiguration) -> Bool)
        -> StarterQuestion
    {
        StarterQuestion(
            text:
                "Sign-in call, such as POST /login, or the issuer of an OpenID Provider, such as https://id.example.com",
            standard: standard, keys: keys(ofCall: "signIn"), current: { $0.signIn?.text ?? $0.issuer },
            isNeeded: isNeeded
        ) {
            let isIssuer = $1?.contains("://") == true
            $0.issuer = isIssuer ? $1 : nil
            $0.signIn = isIssuer ? nil : $1.flatMap { StarterConfiguration.Call($0, method: "POST") }
            return $1 == nil || isIssuer || $0.signIn != nil
                ? nil : "write a method and a path, such as POST /login, or the URL of an issuer"
        }
    }

    private static func keys(ofCall key: String) -> [String] { [key, key + ".path", key + ".method"] }
    private static func hasCall(_ starter: StarterConfiguration) -> Bool { starter.signIn != nil }
    private static func hasProvider(_ starter: StarterConfiguration) -> Bool { starter.issuer != nil }
    private static func hasMembers(_ starter: StarterConfiguration) -> Bool { hasCall(starter) && starter.hasMembers }

    /// All questions, in their order.
    static var all: [StarterQuestion] {
        [
            value("API, such as https://api.example.com", default: nil, \.upstream, ["targets"]),
            value("Folder of a single-page app, such as dist", default: "none", \.files, if: { !$0.isComplete }),
            signIn(default: nil, if: { $0.files == nil }),
            signIn(default: "none: the API is public", if: { $0.files != nil }),
            value("Client id at the provider", default: "cloakroom", \.clientID, if: hasProvider),
            value("File with the client secret", default: "client-secret", \.clientSecretFile, if: hasProvider),
            value(
                "Format of name and password: basic, json, form, oauth", default: "basic: in the field Authorization",
                \.credentials, ["signIn.credentials"], if: hasCall),
            value(
                "Key of the name in the request", default: "email", \.nameMember,
                ["signIn.members", "signIn.members.name"], if: hasMembers),
            value(
                "Key of the password in the request", default: "password", \.passwordMember,
                ["signIn.members", "signIn.members.password"], if: hasMembers),
            StarterQuestion(
                text: "Names of users: email, text", standard: "email: an e-mail address", keys: [],
                current: { $0.usesTextNames ? "text" : nil }, isNeeded: hasCall
            ) {
                $0.usesTextNames = $1 == "text"
                return [nil, "email", "text"].contains($1) ? nil : "write email or text"
            },
            value(
                "Key of the access token in the response, such as data.token",
                default: "accessToken; access_token with oauth", \.accessToken,
                ["signIn.accessToken"], if: hasCall),
            value(
                "Key of the refresh token, such as data.refresh", default: "refreshToken; refresh_token with oauth",
                \.refreshToken, ["signIn.refreshToken"], if: hasCall),
            value(
                "Key of the lifetime in seconds, such as ttl",
                default: "exp of a JWT; expires_in with oauth; otherwise unknown", \.expiresIn, ["signIn.expiresIn"],
                if: hasCall),
            StarterQuestion(
                text: "Field and scheme of the access token, such as Authorization: Token",
                standard: "Authorization: Bearer", keys: ["bearer", "bearer.header", "bearer.scheme"],
                current: \.bearerText, isNeeded: hasCall
            ) {
                $0.setBearer($1)
                return $1?.lowercased() == "none" ? "write a field with a colon, such as X-Auth-Token:" : nil
            },
            call(
                "Refresh call, such as POST /refresh", default: "none: sessions end with the token", "POST", \.refresh,
                "refresh"),
            call(
                "Revocation call, such as POST /logout", default: "none: tokens stay valid", "POST", \.revoke,
                "revoke"),
            call("User call, such as GET /me", default: "none: the user is the name", "GET", \.user, "user"),
            value(
                "Key of the user's id, such as data.id", default: "id", \.userID, ["user.id"], if: { $0.user != nil }),
            StarterQuestion(
                text: "File with an API token, such as api-token", standard: "none: the API requires none",
                keys: ["apiToken", "apiToken.header", "apiToken.valueFile"],
                current: {
                    switch $0.apiToken {
                    case .file(let file): file
                    case .environment: StarterConfiguration.apiTokenVariable
                    case nil: nil
                    }
                }, isNeeded: { _ in true }
            ) {
                $0.apiToken = $1.map { .file($0) }
                return nil
            },
            value(
                "Field of the API token", default: "X-API-TOKEN", \.apiTokenHeader, ["apiToken", "apiToken.header"],
                if: { $0.apiToken != nil }),
            StarterQuestion(
                text: "Origin that browsers use, such as https://app.example.com behind a proxy that terminates TLS",
                standard: "that of the listener, in clear text", keys: [], current: { $0.publicURL },
                isNeeded: { _ in true }
            ) {
                $0.publicURL = $1
                guard let origin = $1, origin.wholeMatch(of: /https?:\/\/[^\/]+/) == nil else { return nil }
                return "write such as https://app.example.com"
            },
            value("Address that clients connect to", default: "127.0.0.1:8080", \.listener),
        ]
    }
}

/// Asks questions on a terminal, one at a time. The prompts go to standard error, so that standard output can be a file.
struct StarterQuestions {
    /// `nil` at the end of the input.
    var read: () -> String?
    var write: (String) -> Void

    /// `nil` unless standard input is a terminal.
    static var onTerminal: StarterQuestions? {
        guard isatty(STDIN_FILENO) == 1 else { return nil }
        return StarterQuestions(
            read: { readLine() }, write: { try? FileHandle.standardError.write(contentsOf: Data($0.utf8)) })
    }

    /// Asks for what the configuration does not have. It is checked with each value; a wrong one changes nothing, and its
    /// question is asked again. At the end of the input, the remaining values keep their defaults.
    func ask(_ starter: inout StarterConfiguration) {
        for question in StarterQuestion.all where question.isOpen(starter) {
            guard ask(question, question.standard, nil, &starter) else { return }
        }
    }

    /// Asks again for values that may be wrong. An empty line takes the name that a change proposes, or keeps the value.
    func ask(_ starter: inout StarterConfiguration, againAbout changes: [DoctorStep.Change]) {
        let hadMembers = starter.hasMembers
        for question in StarterQuestion.all where question.isNeeded(starter) {
            // With another format, the members are asked for too.
            let isNew = !hadMembers && question.keys.contains("signIn.members")
            let keys = question.keys.map { "upstreams.api." + $0 }
            guard isNew || changes.contains(where: { keys.contains($0.key) }) else { continue }
            let offer = changes.first { $0.key == keys.last }?.values?.first
            guard ask(question, question.current(starter) ?? question.standard, offer, &starter) else { return }
        }
    }

    /// Asks one question. The word `none` sets a default that it names.
    /// - Parameter offer: The value of an empty line, which otherwise means `standard`, unless a value is required: `nil`.
    /// - Returns: Whether the input continues.
    private func ask(
        _ question: StarterQuestion, _ standard: String?, _ offer: String?, _ starter: inout StarterConfiguration
    ) -> Bool {
        while var line = line(question.text + ((offer ?? standard).map { " [\($0)]" } ?? "") + ": ") {
            if line.isEmpty, let offer { line = offer }
            if line.isEmpty, standard != nil { return true }
            if line.isEmpty { continue }
            var changed = starter
            guard let problem = question.set(&changed, question.isNone(line) ? nil : line) ?? changed.problem else {
                starter = changed
                return true
            }
            write("  " + problem.replacing("\n", with: "\n  ") + "\n")
        }
        return false
    }

    /// Shows a prompt and reads a line without surrounding blanks; `nil` at the end of the input.
    func line(_ prompt: String) -> String? {
        write(prompt)
        let line = read()?.trimmingCharacters(in: .whitespaces)
        if line == nil { write("\n") }
        return line
    }
}
