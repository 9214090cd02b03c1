import CloakroomCore

extension IdentityEndpointConfiguration {
    /// A token call. Members of requests exist only for calls with a body, and member names of responses, joined by dots,
    /// only for calls that issue tokens.
    /// - Returns: `nil` if the section is absent or invalid.
    init?(_ call: TokenCallPaths.Call.Kind, from scope: ConfigScope) {
        let method = scope.value("method", as: .method, default: call == .user ? "GET" : "POST")
        if let warning = MethodRules.warning(about: method) { scope.warn(warning, at: "method") }
        let path = scope.required("path", as: .path)
        let format =
            call == .user
            ? .bearer
            : scope.value("credentials", as: .choice(), default: call == .signIn ? CredentialFormat.basic : .bearer)
        let body = IdentityBodySection(call, format: format, from: scope)
        let issuesTokens = call == .signIn || call == .refresh
        let accessToken =
            issuesTokens ? scope.value("accessToken", as: .members, default: format.accessToken) : nil
        let refreshToken =
            issuesTokens ? scope.value("refreshToken", as: .members, default: format.refreshToken) : nil
        let expiresIn = issuesTokens ? scope.optional("expiresIn", as: .members) : nil
        let success = call == .revoke ? SuccessRule() : SuccessRule(from: scope.section("success"))
        let errorCode = issuesTokens ? scope.value("errorCode", as: .members, default: "error") : "error"
        let rejected =
            issuesTokens ? scope.nonEmptyList("rejectedStatuses", as: .integer(400...499), example: "401") : nil
        let endsOn = call == .refresh ? scope.nonEmptyList("endsOn", as: .errorCode, example: "invalid_grant") : nil
        let userID = call == .user ? scope.value("id", as: .members, default: "id") : "id"
        if format == .oauth { Self.checkOAuth(call, method: method, scope) }
        guard let path else { return nil }
        self.init(
            method: method, path: path, credentials: format, members: body.members, fixedMembers: body.fixedMembers,
            client: body.client, accessToken: accessToken, refreshToken: refreshToken, expiresIn: expiresIn,
            success: success, errorCode: errorCode, rejectedStatuses: rejected.map(Set.init),
            endsOn: endsOn.map(Set.init), userID: userID)
    }

    private static func checkOAuth(_ call: TokenCallPaths.Call.Kind, method: String, _ scope: ConfigScope) {
        if method != "POST" {
            scope.report(
                ConfigValueError("\(method) is not supported with credentials: oauth", "write POST, or leave it out"),
                at: "method")
        }
        // With a status alone, a wrong client secret would sign all users out.
        if call == .refresh, scope.isSet("rejectedStatuses") {
            scope.report(
                ConfigValueError(
                    "not supported with credentials: oauth, where the error code decides",
                    "list the codes in endsOn; any400 is for upstreams without codes"), at: "rejectedStatuses")
        }
    }
}

/// The parts of a token call's section that exist only for calls with a body.
private struct IdentityBodySection {
    let members: IdentityEndpointConfiguration.MemberNames
    let fixedMembers: [IdentityEndpointConfiguration.FixedMember]
    let client: IdentityEndpointConfiguration.Client?

    init(
        _ call: TokenCallPaths.Call.Kind, format: IdentityEndpointConfiguration.CredentialFormat,
        from scope: ConfigScope
    ) {
        var members = IdentityEndpointConfiguration.MemberNames()
        guard call != .user else {
            self.members = members
            fixedMembers = []
            client = nil
            return
        }
        let names = scope.section("members")
        if call == .signIn {
            members.name = names.value("name", as: .memberName, default: members.name)
            members.password = names.value("password", as: .memberName, default: members.password)
        } else {
            members.refreshToken = names.value("refreshToken", as: .memberName, default: members.refreshToken)
        }
        self.members = members
        fixedMembers = scope.entries("static") { $0.optional($1, as: .fixedValue) }
            .map { .init(name: $0.name, value: $0.value) }
        client = IdentityEndpointConfiguration.Client(from: scope.section("client"))
        Self.check(format, scope)
        let own = Self.ownNames(call, format, members) + Self.clientNames(client)
        Self.check(own, fixedMembers.map(\.name), scope)
    }

    /// Reports sections that the format cannot use. Ignoring them would send a request without them.
    private static func check(_ format: IdentityEndpointConfiguration.CredentialFormat, _ scope: ConfigScope) {
        let unused = format.hasBody ? (format == .oauth ? ["members"] : []) : ["members", "static", "client"]
        for name in unused where scope.reading.isSectionSet(scope.path + [name]) {
            scope.report(
                ConfigValueError(
                    "not supported with credentials: \(format.rawValue)",
                    format == .oauth
                        ? "leave it out: OAuth sets these names"
                        : "write credentials: json, form or oauth, or leave it out"
                ), at: name, becauseOf: [scope.path + ["credentials"]])
        }
    }

    /// Reports names that occur twice: parsers differ in which of the two values applies.
    private static func check(_ own: [String], _ fixed: [String], _ scope: ConfigScope) {
        if Set(own).count < own.count {
            scope.report(
                ConfigValueError("two of the members have the same name", "write different names"), at: "members")
        }
        for name in fixed {
            if own.contains(name) {
                scope.section("static").report(
                    ConfigValueError("conflicts with a member that the call itself sends", "leave it out"), at: name)
            } else if secretNames.contains(name) {
                scope.section("static").report(
                    ConfigValueError(
                        "is a secret, and static members are printed", "write client.id and client.secret instead"),
                    at: name)
            } else if !(1...64).contains(name.utf8.count) || DiagnosticText.escaped(name) != name {
                scope.section("static").report(
                    ConfigValueError("must have a name of 1 to 64 bytes without control characters", "rename it"),
                    at: name)
            }
        }
    }

    /// Members that other sections have, as secrets.
    private static let secretNames: Set<String> = ["client_secret", "client_assertion"]

    private static func ownNames(
        _ call: TokenCallPaths.Call.Kind, _ format: IdentityEndpointConfiguration.CredentialFormat,
        _ members: IdentityEndpointConfiguration.MemberNames
    ) -> [String] {
        switch (format, call) {
        case (.basic, _), (.bearer, _), (_, .user): []
        case (.oauth, .signIn): ["grant_type", "username", "password"]
        case (.oauth, .refresh): ["grant_type", "refresh_token"]
        case (.oauth, .revoke): ["token", "token_type_hint"]
        case (.json, .signIn), (.form, .signIn): [members.name, members.password]
        case (.json, _), (.form, _): [members.refreshToken]
        }
    }

    private static func clientNames(_ client: IdentityEndpointConfiguration.Client?) -> [String] {
        client?.authentication == .post ? ["client_id", "client_secret"] : []
    }
}

extension IdentityEndpointConfiguration.Client {
    /// `client` of a token call.
    /// - Returns: `nil` if the section is absent or invalid.
    fileprivate init?(from scope: ConfigScope) {
        let id = scope.required("id", as: .clientID)
        let secret = scope.secret("secret", as: .fieldValue)
        let authentication = scope.value("authentication", as: .choice(), default: Authentication.basic)
        guard let id, let secret else { return nil }
        self.init(id: id, secret: secret, authentication: authentication)
    }
}

extension IdentityEndpointConfiguration.SuccessRule {
    /// `success` of a token call.
    ///
    /// - `statuses`: 200 to 299; default all.
    /// - `member`: a member of the response, names joined by dots; default none.
    /// - `value`: its value; default `true`.
    fileprivate init(from scope: ConfigScope) {
        let statuses = scope.nonEmptyList("statuses", as: .integer(200...299), example: "200")
        let path = scope.optional("member", as: .members)
        let value = scope.value("value", as: .text, default: "true")
        if scope.isSet("value"), !scope.isSet("member") {
            scope.report(
                ConfigValueError("not supported without member", "write the member that has this value"), at: "value",
                becauseOf: [scope.path + ["member"]])
        }
        self.init(statuses: statuses.map(Set.init), member: path.map { Member(path: $0, value: value) })
    }
}

extension ValueFormat where Value == String {
    /// The name of a member of a request.
    static let memberName = ValueFormat(
        "name of a member, at most 64 bytes",
        parse: { text throws(ConfigValueError) in
            guard (1...64).contains(text.utf8.count), DiagnosticText.escaped(text) == text else {
                throw ConfigValueError(
                    "must be a name of 1 to 64 bytes without control characters", "write one such as username")
            }
            return text
        }, render: { $0 })

    /// The value of a static member: any text on one line, also an empty one.
    static let fixedValue = ValueFormat(
        "text",
        parse: { text throws(ConfigValueError) in
            guard DiagnosticText.escaped(text) == text else {
                throw ConfigValueError("must be text without control characters", "write plain text on one line")
            }
            return text
        }, render: { $0 })
}
