import CloakroomCore

/// Begins the login of a native app: `POST` of `app` below the accounts prefix. The app opens the URL of the response in
/// a browser. Its HTTP client keeps the cookie: only with that of its latest login it can complete one.
///
/// Members: `app`, its name; `identity`, `for` and `persistent` as in ``LoginController``; `port`, at which an app listens
/// whose redirect is one of loopback; `parameters`, those of ``IdentityConfiguration/passParameters``. None of them
/// selects where the browser continues, and others are rejected. The gateway keeps nothing.
struct AppController: Sendable {
    let account: AccountController
    let logins: ProviderLogins

    /// The members of a request that has to be a JSON object; `nil` for another request.
    static func members(of request: AccountRequest) -> [JSONMemberName: JSONValue]? {
        guard case .object(let members)? = JSONValue(document: request.body.bytes),
            SignInRequestParser.isJSON(request.contentType)
        else { return nil }
        return members
    }

    /// The response to a request whose member is missing or invalid.
    static func invalid(_ member: String) -> AccountResponse {
        AccountResponse(Problem(.invalidInput, detail: "Send a JSON object with a valid member: \(member)."))
    }

    func respond(_ request: AccountRequest) async -> AccountResponse {
        let members = Self.members(of: request) ?? [:]
        guard let name = members["app"]?.string else { return Self.invalid("app") }
        guard let app = logins.app(named: name) else {
            return AccountResponse(Problem(.notFound, detail: "No such app."))
        }
        var passed: [JSONMemberName: JSONValue] = [:]
        var port: UInt16 = 0
        for (name, value) in members {
            switch (name, value) {
            case ("app", .string), ("identity", .string), ("for", .string), ("persistent", .bool): break
            case ("port", .number(let value)): port = UInt16(exactly: value) ?? 0
            case ("parameters", .object(let values)): passed = values
            default:
                return AccountResponse(
                    Problem(.invalidInput, detail: "Send a JSON object with supported members, each of its type."))
            }
        }
        let route = members["for"]?.string
        guard app.isLoopback == (port != 0), app.isLoopback == (members["port"] != nil) else {
            return Self.invalid("port")
        }
        do throws(SessionStoreError) {
            // The new session replaces this one.
            let session = try await account.replaceableSession(of: request).session
            let required = route.flatMap(logins.requirement(ofRoute:))
            guard route == nil || required != nil else { return Self.invalid("for") }
            // Decided with the session of the app: the browser has another one, or none.
            let stepUp = required?.requiresStepUp == true ? required?.stepUp(for: session?.claims?.values) : nil
            let own = stepUp == nil ? nil : session
            guard
                let provider = logins.provider(
                    members["identity"]?.string, among: logins.providers(of: app), of: own)
            else { return Self.invalid("identity") }
            let parameters = logins.passed(passed.compactMapValues(\.string), to: provider)
            guard let parameters, parameters.count == passed.count else { return Self.invalid("parameters") }
            var form = parameters.map { (name: $0.name, value: $0.value) }
            // No parameter of a client has these names.
            if let stepUp { form.append(("acr_values", stepUp.acr.joined(separator: " "))) }
            if let maxAge = stepUp?.maxAge { form.append(("max_age", "\(maxAge.components.seconds)")) }
            var generator = SystemRandomNumberGenerator()
            let secrets = LoginSecrets(using: &generator)
            let login = PendingLogin(
                identity: provider.configuration.name,
                issuerHash: PendingLogin.hash(ofIssuer: provider.configuration.issuer),
                returnTarget: FormEncoding.encode(form), startedAt: request.wallTime,
                route: stepUp == nil ? nil : route, replaces: session?.key, subjectHash: own?.provenance?.subjectHash,
                isPersistent: members["persistent"] == .bool(true),
                app: PendingLogin.App(
                    name: name, verifierHash: LoginSecrets.hash(ofState: secrets.verifier), port: port))
            let (cookies, cookieName) = (logins.cookies, logins.cookies.verifierName)
            guard login.isWithinLimits, let token = cookies.seal(login, as: .token, now: request.wallTime),
                let verifier = cookies.seal(secrets.verifier, as: cookieName, now: request.wallTime)
            else { return Self.invalid("parameters") }
            let url = JSONString.quoted(logins.url(ofToken: token))
            let end = (request.wallTime + logins.login.timeout).iso8601
            return AccountResponse(
                status: 200,
                fields: [.init("Set-Cookie", cookies.cookie(cookieName, verifier, lifetime: cookies.timeout))],
                content: .json(Array(#"{"url":\#(url),"expiresAt":"\#(end)"}"#.utf8)))
        } catch {
            return account.storeFailure(error)
        }
    }
}
