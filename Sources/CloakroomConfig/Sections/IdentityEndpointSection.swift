import CloakroomCore

extension IdentityEndpointConfiguration {
    /// A token call. Members of requests exist only for calls with a body, and paths of tokens in the response only for
    /// calls that issue tokens.
    /// - Parameters:
    ///   - client: The gateway's own credentials, which calls with a body send.
    ///   - errorCode: The path of the error code in responses.
    /// - Returns: `nil` if the section is absent or invalid.
    init?(_ call: TokenCallPaths.Call.Kind, from scope: ConfigScope, client: Client?, errorCode: String) {
        let method = scope.value("method", as: .method, default: call == .user ? "GET" : "POST")
        if let warning = MethodRules.warning(about: method) { scope.warn(warning, at: "method") }
        let path = scope.required("path", as: .path)
        let format =
            call == .user
            ? .bearer
            : scope.value("credentials", as: .choice(), default: call == .signIn ? CredentialFormat.basic : .bearer)
        self.init(method: method, path: path ?? "/", credentials: format, errorCode: errorCode)
        if format.hasBody { self.client = client }
        if call != .user { readBody(call, scope) }
        let issuesTokens = call == .signIn || call == .refresh
        if issuesTokens {
            accessToken = scope.value("accessToken", as: .members, default: accessToken)
            refreshToken = scope.value("refreshToken", as: .members, default: refreshToken)
            expiresIn = scope.optional("expiresIn", as: .members) ?? expiresIn
        }
        if call != .revoke { success = scope.optional("success", as: .success) }
        if issuesTokens {
            rejectedStatuses = scope.nonEmptyList("rejectedStatuses", as: .integer(400...499), example: "401")
                .map(Set.init)
        }
        if call == .refresh {
            endsOn = scope.nonEmptyList("endsOn", as: .errorCode, example: "invalid_grant").map(Set.init)
        }
        if call == .user { userID = scope.value("id", as: .members, default: userID) }
        if format == .oauth { Self.checkOAuth(call, method: method, scope) }
        if path == nil { return nil }
    }

    private static func checkOAuth(_ call: TokenCallPaths.Call.Kind, method: String, _ scope: ConfigScope) {
        if method != "POST" {
            scope.report(
                "\(method) is not supported with credentials: oauth", "write POST, or leave it out", at: "method")
        }
        // With a status alone, a wrong client secret would sign all users out.
        if call == .refresh, scope.isSet("rejectedStatuses") {
            scope.report(
                "not supported with credentials: oauth, where the error code decides",
                "list the codes in endsOn; any400 is for upstreams without codes", at: "rejectedStatuses")
        }
    }
}

/// The keys of a token call that exist only for calls with a body.
extension IdentityEndpointConfiguration {
    private mutating func readBody(_ call: TokenCallPaths.Call.Kind, _ scope: ConfigScope) {
        let names = scope.section("members")
        if call == .signIn {
            members.name = names.value("name", as: .memberName, default: members.name)
            members.password = names.value("password", as: .memberName, default: members.password)
        } else {
            members.refreshToken = names.value("refreshToken", as: .memberName, default: members.refreshToken)
        }
        fixedMembers = scope.entries("static") { $0.optional($1, as: .fixedValue) }
            .map { NamedValue(name: $0.name, value: $0.value) }
        checkFormat(scope)
        let clientNames = client?.authentication == .post ? ["client_id", "client_secret"] : []
        Self.check(memberNames(call) + clientNames, fixedMembers.map(\.name), scope)
    }

    /// Reports sections that the format cannot use. Ignoring them would send a request without them.
    private func checkFormat(_ scope: ConfigScope) {
        let isOAuth = credentials == .oauth
        let unused = credentials.hasBody ? (isOAuth ? ["members"] : []) : ["members", "static"]
        for name in unused where scope.reading.isSectionSet(scope.path + [name]) {
            scope.report(
                "not supported with credentials: \(credentials.rawValue)",
                isOAuth
                    ? "leave it out: OAuth sets these names"
                    : "write credentials: json, form or oauth, or leave it out", at: name,
                becauseOf: [scope.path + ["credentials"]])
        }
    }

    /// Reports names that occur twice: parsers differ in which of the two values applies.
    private static func check(_ own: [String], _ fixed: [String], _ scope: ConfigScope) {
        if Set(own).count < own.count {
            scope.report("two of the members have the same name", "write different names", at: "members")
        }
        for name in fixed {
            if own.contains(name) {
                scope.section("static").report(
                    "conflicts with a member that the call itself sends", "leave it out", at: name)
            } else if secretNames.contains(name) {
                scope.section("static").report(
                    "is a secret, and static members are printed",
                    "write client.id and client.secret of the upstream instead", at: name)
            } else if !(1...64).contains(name.utf8.count) || name.escaped != name {
                scope.section("static").report(
                    "must have a name of 1 to 64 bytes without control characters", "rename it", at: name)
            }
        }
    }

    /// Members that other sections have, as secrets.
    private static let secretNames: Set<String> = ["client_secret", "client_assertion"]

    /// The names of the members that the call itself sends.
    private func memberNames(_ call: TokenCallPaths.Call.Kind) -> [String] {
        switch (credentials, call) {
        case (.basic, _), (.bearer, _), (_, .user): []
        case (.oauth, .signIn): ["grant_type", "username", "password"]
        case (.oauth, .refresh): ["grant_type", "refresh_token"]
        case (.oauth, .revoke): ["token", "token_type_hint"]
        case (.json, .signIn), (.form, .signIn): [members.name, members.password]
        case (.json, _), (.form, _): [members.refreshToken]
        }
    }
}

extension IdentityEndpointConfiguration.Client {
    /// `client` of an upstream.
    /// - Returns: `nil` if the section is absent or invalid.
    init?(from scope: ConfigScope) {
        let id = scope.required("id", as: .clientID)
        let secret = scope.secret("secret", as: .fieldValue)
        let authentication = scope.value("authentication", as: .choice(), default: Authentication.basic)
        guard let id, let secret else { return nil }
        self.init(id: id, secret: secret, authentication: authentication)
    }
}

extension ValueFormat where Value == IdentityEndpointConfiguration.SuccessMember {
    /// `success` of a token call: a member, and its value unless that is `true`.
    fileprivate static let success = ValueFormat(
        "member names joined by dots, or `member=value`",
        render: { $0.value == "true" ? $0.path : "\($0.path)=\($0.value)" }
    ) { text throws(ConfigValueError) in
        let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let words = text.split { " =".contains($0) }
        try require(
            parts[0].last != " " && parts.last?.first != "=", "must be a member or member=value, not \(text.quoted)",
            words.count == 2 ? "write \(words[0])=\(words[1])" : "write one such as status=ok")
        let path = try ValueFormat<String>.members.parse(String(parts[0]))
        guard parts.count > 1 else { return Value(path: path) }
        return Value(path: path, value: try ValueFormat<String>.text.parse(String(parts[1])))
    }
}

extension ValueFormat where Value == String {
    /// The name of a member of a request.
    static let memberName = ValueFormat("name of a member, at most 64 bytes") { text throws(ConfigValueError) in
        try require(
            (1...64).contains(text.utf8.count) && text.escaped == text,
            "must be a name of 1 to 64 bytes without control characters", "write one such as username")
        return text
    }

    /// The value of a static member: any text on one line, also an empty one.
    static let fixedValue = ValueFormat("text") { text throws(ConfigValueError) in
        try require(text.escaped == text, "must be text without control characters", "write plain text on one line")
        return text
    }
}
