import CloakroomConfig
import CloakroomCore
import Foundation

/// A small configuration for one API: what `cloakroom init` writes.
///
/// The text contains no secret: an API token is referenced by a file or by an environment variable.
struct StarterConfiguration: Equatable {
    /// A method and a path of the API.
    struct Call: Equatable {
        var method: String
        var path: String

        /// Parses `POST /login`; a path alone has the default method.
        /// - Returns: `nil` if the text is neither.
        init?(_ text: String, method: String) {
            let words = text.split(whereSeparator: \.isWhitespace).map(String.init)
            guard let path = words.last, path.hasPrefix("/"), words.count <= 2 else { return nil }
            self.method = words.count == 2 ? words[0].uppercased() : method
            self.path = path
        }

        var text: String { "\(method) \(path)" }
    }

    enum APITokenSource: Equatable {
        case file(String)
        /// ``StarterConfiguration/apiTokenVariable``.
        case environment
    }

    /// The result of a ``StarterTrial``.
    enum Trial {
        case passed, failed
    }

    /// The environment variable that replaces the token in the file.
    static let apiTokenVariable = "CLOAKROOM_UPSTREAMS_API_API_TOKEN_VALUE"

    /// `http://host:port` or `https://host:port`.
    var upstream: String?
    /// `nil` if a provider signs users in, or nothing does.
    var signIn: Call?
    /// The OpenID Provider, and the registration of the gateway there; `nil` for the default.
    var issuer, clientID, clientSecretFile: String?
    /// The folder of a single-page application, whose API is below `/api`; `nil` without one.
    var files: String?
    /// The address that clients connect to; `nil` for the default.
    var listener: String?
    /// `basic`, `json`, `form` or `oauth`; `nil` for the default.
    var credentials: String?
    /// Keys of the sign-in request, for `json` and `form`; `nil` for the default.
    var nameMember, passwordMember: String?
    /// Paths of keys in the sign-in response; `nil` for the default of the credential format.
    var accessToken, refreshToken: String?
    /// The path of the lifetime in seconds; `nil` for the default.
    var expiresIn: String?
    var refresh, revoke, user: Call?
    /// The path of the user's id in the response of `user`; `nil` for the default.
    var userID: String?
    /// Whether users sign in with names that are no e-mail addresses.
    var usesTextNames = false
    var apiToken: APITokenSource?
    /// The field of the API token; `nil` for the default.
    var apiTokenHeader: String?
    /// The field of the access token and the scheme in it; `nil` for the default.
    var bearerHeader, bearerScheme: String?
    /// The origin of the gateway as browsers see it; `nil` for clear text on loopback.
    var publicURL: String?
    /// Whether the calls passed when they were tried; `nil` if they were not.
    var trial: Trial?

    /// The configuration in YAML, which ends with a line break.
    var yaml: String {
        (header + listenerSection + identitiesSection + upstreamSection + accountsSection + sessionSection + routes
            + statements)
            .joined(separator: "\n") + "\n"
    }

    /// Whether the required values are known.
    var isComplete: Bool { upstream != nil && (hasSignIn || files != nil) }

    /// Whether a session is possible.
    private var hasSignIn: Bool { signIn != nil || issuer != nil }
    private var format: String { credentials ?? "basic" }
    /// Whether name and password are members of a body with names of their own.
    var hasMembers: Bool { format == "json" || format == "form" }
    private var address: String { listener ?? "127.0.0.1:8080" }
    var secretFile: String { clientSecretFile ?? "client-secret" }

    private var header: [String] {
        let doctor =
            signIn != nil
            ? ["#   cloakroom doctor --config FILE --user NAME    tries sign-in, user, refresh and revoke at the API"]
            : issuer != nil
                ? ["#   cloakroom doctor --config FILE                checks the metadata and keys of the provider"]
                : []
        let result: [String] =
            switch trial {
            case .passed: ["# The calls passed with a user of the API when this file was written."]
            case .failed: ["# The calls did not pass when this file was written: doctor tries them again."]
            case nil: []
            }
        return result + [
            "# Configuration of Cloakroom, written by `cloakroom init`. Next steps:",
            "#   cloakroom check-config --config FILE          reports errors in this file",
        ] + doctor + [
            "#   cloakroom serve --config FILE                 runs the gateway",
            "# ConfigurationReference.md describes all keys; `cloakroom print-config` shows their effective values.",
            "",
        ]
    }

    private var isPublic: Bool { publicURL?.lowercased().hasPrefix("https://") ?? false }

    private var listenerSection: [String] {
        let transport =
            isPublic
            ? [
                "    # Clear text, because a proxy on this machine terminates TLS. To terminate TLS here, remove this key",
                "    # and write tls.certificateFile and tls.keyFile.",
                "    behindTLSProxy: true",
            ]
            : ["    # Clear text on loopback, for a trial. In production write tls.certificateFile and tls.keyFile."]
        return ["listeners:", "  - address: \(Self.address(address))"] + transport + [""]
    }

    /// The origin of the gateway as browsers see it.
    var origin: String { publicURL ?? "http://\(address)" }

    private var identitiesSection: [String] {
        guard let issuer else { return [] }
        return [
            "identities:", "  provider:", "    # Exactly as in the provider's /.well-known/openid-configuration.",
            "    issuer: \(Self.quoted(issuer))",
            "    # A confidential client, with the redirect URI",
            "    # \(Self.comment(origin))/auth/callback", "    client:",
            "      id: \(Self.scalar(clientID ?? "cloakroom"))", "      secretFile: \(Self.scalar(secretFile))",
            "    # Which upstreams get the provider's access token.", "    tokensFor: [api]", "",
        ]
    }

    private var upstreamSection: [String] {
        var lines = ["upstreams:", "  api:", "    targets: [\(Self.quoted(upstream ?? ""))]"]
        lines += apiTokenLines + bearerLines
        guard signIn != nil else { return lines + [""] }
        lines += ["    # The call that exchanges a name and a password for tokens."] + signInLines
        if let refresh {
            lines += ["    # The call that exchanges the refresh token for new tokens."]
            lines += tokenCallLines("refresh", refresh) + responseLines
        } else {
            lines += [
                "    # Without refresh, sessions end with the access token.", "    #refresh:", "      #path: /refresh",
            ]
        }
        if let revoke {
            lines +=
                ["    # The call that revokes the tokens when a user signs out."] + tokenCallLines("revoke", revoke)
        }
        if let user {
            lines += ["    # The call that returns the signed-in user."] + callLines("user", user, method: "GET")
            if let userID { lines.append("      id: \(Self.scalar(userID))") }
        }
        return lines + [""]
    }

    private var apiTokenLines: [String] {
        guard let apiToken else { return [] }
        var lines = ["    # Sent with the identity calls, and with requests of routes that inject apiToken."]
        switch apiToken {
        case .file(let path):
            lines += ["    apiToken:", "      valueFile: \(Self.scalar(path))"]
        case .environment:
            lines += ["    # The value is in the environment: \(Self.apiTokenVariable).", "    apiToken:"]
        }
        // An empty section would be no section.
        let header = apiTokenHeader ?? "X-API-TOKEN"
        return lines + ["      header: \(Self.scalar(header))"]
    }

    private var bearerLines: [String] {
        guard bearerText != nil else { return [] }
        return [
            "    # The field of the access token, and the word before the token.", "    bearer:",
            "      header: \(Self.scalar(bearerHeader ?? Self.bearer.header))",
            "      scheme: \(Self.scalar(bearerScheme ?? Self.bearer.scheme))",
        ]
    }

    private var signInLines: [String] {
        var lines = signIn.map { callLines("signIn", $0, method: "POST") } ?? []
        lines += [
            "      # basic: in Authorization; json or form: in the body; oauth: a token request of OAuth 2.0.",
            "      credentials: \(Self.scalar(format))",
        ]
        if hasMembers {
            lines.append("      members:")
            lines.append("        name: \(Self.scalar(nameMember ?? "email"))")
            lines.append("        password: \(Self.scalar(passwordMember ?? "password"))")
        }
        lines.append("      # The keys of the tokens in the response; a dot leads into an object: data.token.")
        return lines + responseLines
    }

    /// The keys of the tokens, the same in the responses of sign-in and refresh.
    private var responseLines: [String] {
        let isOAuth = format == "oauth"
        let access = accessToken ?? (isOAuth ? "access_token" : "accessToken")
        let refresh = refreshToken ?? (isOAuth ? "refresh_token" : "refreshToken")
        let lifetime = expiresIn.map { ["      expiresIn: \(Self.scalar($0))"] } ?? []
        return ["      accessToken: \(Self.scalar(access))", "      refreshToken: \(Self.scalar(refresh))"] + lifetime
    }

    /// The key of the refresh token in a request: an API that returns the token under another name than the default
    /// usually expects it under that name.
    private var tokenMemberLines: [String] {
        guard hasMembers, let name = refreshToken?.split(separator: ".").last,
            name != "refreshToken"
        else { return [] }
        return [
            "      # The key under which the API expects the refresh token.", "      members:",
            "        refreshToken: \(Self.scalar(String(name)))",
        ]
    }

    /// A call with the refresh token.
    private func tokenCallLines(_ name: String, _ call: Call) -> [String] {
        let format = self.format == "basic" ? "bearer" : self.format
        return callLines(name, call, method: "POST") + ["      credentials: \(Self.scalar(format))"] + tokenMemberLines
    }

    private func callLines(_ name: String, _ call: Call, method: String) -> [String] {
        let methodLine = call.method == method ? [] : ["      method: \(Self.scalar(call.method))"]
        return ["    \(name):"] + methodLine + ["      path: \(Self.scalar(call.path))"]
    }

    private var accountsSection: [String] {
        if issuer != nil {
            return [
                "accounts:", "  # The origin of the gateway as browsers see it.",
                "  publicURL: \(Self.quoted(origin))", "",
            ]
        }
        var lines: [String] = []
        // Without identities the key has no effect, and check-config warns about it.
        if let publicURL { lines.append("  #publicURL: \(Self.quoted(publicURL))") }
        if usesTextNames {
            lines += ["  # Clients sign in with {\"username\": …, \"password\": …}, a form with both, or Basic."]
            lines += ["  name:", "    member: username", "    kind: text"]
        }
        guard !lines.isEmpty else { return [] }
        let comment = publicURL == nil ? [] : ["  # Required with identities, for sign-in at OpenID Providers."]
        return [usesTextNames ? "accounts:" : "#accounts:"] + comment + lines + [""]
    }

    private var sessionSection: [String] {
        var lines = ["session:", "  # Sessions in memory end with the process. See store: sqlite and valkey."]
        lines += ["  store: memory"]
        var cookie: [String] = []
        if !isPublic {
            cookie = ["    # For clear text only. Remove it together with clear text.", "    secure: false"]
        }
        if issuer != nil { cookie += ["    # Links of other sites arrive with the session.", "    sameSite: Lax"] }
        return lines + (cookie.isEmpty ? [] : ["  cookie:"] + cookie) + [""]
    }

    private var routes: [String] {
        let fields = (apiToken == nil ? [] : ["apiToken"]) + (hasSignIn ? ["bearer"] : [])
        let inject = "[\(fields.joined(separator: ", "))]"
        let access = ["    requiresAuthorization: \(hasSignIn)"] + (fields.isEmpty ? [] : ["    inject: \(inject)"])
        var lines = ["# A request that matches no route gets 404. The most specific path wins.", "routes:"]
        if let user, signIn != nil {
            let below = files == nil || user.path.hasPrefix("/api/") ? "" : "/api"
            lines += [
                "  - name: user", "    methods: [\(Self.scalar(user.method))]",
                "    path: \(Self.scalar(below + user.path))",
            ]
            lines += below.isEmpty ? [] : ["    stripPrefix: /api"]
            lines += ["    requiresAuthorization: true", "    inject: \(inject)"]
        }
        if let files {
            lines += [
                "  # The app. Paths without a file get fallback, so that its links work.", "  - name: app",
                "    path: /*", "    requiresAuthorization: false", "    files:",
                "      root: \(Self.scalar(files))", "      fallback: index.html",
                "      # Their names change with their content: clients keep them for a year.",
                "      immutable: [/assets/*]",
                "  # The API\(hasSignIn ? ", for signed-in users only" : ", public, because nothing signs users in").",
                "  - name: api", "    methods: [GET, POST, PUT, PATCH, DELETE]", "    path: /api/*",
            ]
            return lines + prefix + access
        }
        guard signIn != nil else {
            // Navigations of a browser without a session are redirected to the provider.
            let login = issuer == nil ? [] : ["    onMissingSession: login"]
            return lines + ["  - name: api", "    methods: [GET, POST, PUT, PATCH, DELETE]", "    path: /*"] + access
                + login
        }
        return lines + [
            "  # Everything else of the API, for signed-in users only. Replace it by the routes that clients need; a route",
            "  # with requiresAuthorization: false is public.",
            "  - name: api", "    methods: [GET, POST, PUT, PATCH, DELETE]", "    path: /*",
            "    requiresAuthorization: true", "    inject: \(inject)",
        ]
    }

    /// Whether the API of an app gets paths with `/api`: as its user call, or without one its sign-in.
    private var prefix: [String] {
        guard let call = user ?? signIn else {
            return ["    # If the paths of the API do not begin with /api:", "    #stripPrefix: /api"]
        }
        guard !call.path.hasPrefix("/api/") else { return [] }
        return [
            "    # /api/x arrives at the API as /x, because \(Self.comment(call.path)) does not begin with /api.",
            "    stripPrefix: /api",
        ]
    }

    /// Three statements that hold.
    private var statements: [String] {
        let api = files == nil ? "/*" : "/api/*"
        let comment = [
            "", "# What `cloakroom prove` decides for all requests, for example before each change of this file.",
        ]
        guard hasSignIn else {
            let (name, condition) =
                files == nil
                ? ("no other methods reach the API", "methods: [GET, HEAD, POST, PUT, PATCH, DELETE]")
                : ("nothing else reaches the API", "paths: [\(api)]")
            return comment + [
                "prove:", "  - name: the app is public", "    always: served", "    methods: [GET]", "    paths: [/*]",
                "  - name: \(name)", "    never: forwarded", "    unless: { \(condition) }",
                "  - name: only the API is written", "    never: served", "    methods: [unsafe]",
                "    unless: { upstreams: [api] }",
            ]
        }
        return comment + [
            "prove:", "  - name: nothing is written without a session", "    ready: writesNeedSession",
            "  - name: pages of other sites write nothing", "    ready: writesFromOwnPages",
            "  - name: the API is for signed-in users", "    never: forwarded", "    paths: [\(api)]",
            "    unless: { session: true }",
        ]
    }

    // MARK: - The access token

    private static let bearer = BearerField()

    /// The field and the scheme, as ``setBearer(_:)`` takes them; `nil` for the default.
    var bearerText: String? {
        guard bearerHeader != nil || bearerScheme != nil else { return nil }
        return "\(bearerHeader ?? Self.bearer.header): \(bearerScheme ?? Self.bearer.scheme)"
            .trimmingCharacters(in: .whitespaces)
    }

    /// Parses `Authorization: Token`. A field without a scheme ends with the colon, and a scheme alone is in the default field.
    mutating func setBearer(_ text: String?) {
        let parts = text?.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            .map { $0.trimmingCharacters(in: .whitespaces) }
        let (header, scheme) = (parts?.count == 2 ? parts?[0] : nil, parts?.last)
        bearerHeader = header?.lowercased() == Self.bearer.header.lowercased() ? nil : header
        bearerScheme = scheme == Self.bearer.scheme ? nil : scheme
    }

    // MARK: - Loading

    /// Loads the configuration as the gateway would.
    /// - Parameter environment: The variables that apply; `nil` to read neither them nor files, which need not exist yet.
    func load(_ environment: [String: String]? = nil) throws(ConfigDiagnostics) -> LoadedConfig {
        // Only its presence is checked.
        let token = apiToken == .environment ? [Self.apiTokenVariable: "unset"] : [:]
        var sources = ConfigSources(file: nil, environment: environment ?? token)
        sources.standardInput = Array(yaml.utf8)
        sources.isOffline = environment == nil
        return try loadConfig(sources)
    }

    /// The errors, one a line, without lines of a file that is not written; `nil` if there are none.
    var problem: String? {
        do throws(ConfigDiagnostics) {
            _ = try load()
            return nil
        } catch {
            return Self.text(of: error)
        }
    }

    static func text(of error: ConfigDiagnostics) -> String {
        error.problems.map {
            "\($0.key ?? "configuration"): \($0.message)" + ($0.suggestion.isEmpty ? "" : " (\($0.suggestion))")
        }.joined(separator: "\n")
    }
}
