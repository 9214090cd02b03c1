import CloakroomConfig
import Foundation
import Testing

/// A typical configuration error and the beginning of the one line that must report it.
struct TypicalValueError: Sendable, CustomTestStringConvertible {
    let piece: String
    let change: String
    /// The beginning of the line, after the name of the file.
    let line: String

    init(_ piece: String, _ change: String, _ line: String) {
        self.piece = piece
        self.change = change
        self.line = line
    }

    var testDescription: String { "\(piece) → \(change)" }
}

@Suite("One error, one line")
struct OneConfigDiagnosticTests {
    @Test("An error is one line, even if other keys depend on the invalid value", arguments: sections + keys + values)
    func oneLine(_ valueError: TypicalValueError) throws {
        let lines = try ConfigFixture.valueErrors(replacing: valueError.piece, by: valueError.change)
        #expect(lines.count == 1, "\(lines)")
        #expect(lines.first?.hasPrefix("cloakroom.yaml:\(valueError.line)") == true, "\(lines)")
    }

    /// A section with a misspelled name.
    static let sections = [
        TypicalValueError("upstreams:", "upstream:", "3:1: upstream: unknown key"),
        TypicalValueError("listeners:", "listener:", "1:1: listener: unknown key"),
        TypicalValueError("session:", "sesion:", "10:1: sesion: unknown key"),
        TypicalValueError("session:", "sessions:", "10:1: sessions: unknown key"),
        TypicalValueError("routes:", "route:", "13:1: route: unknown key"),
        TypicalValueError("  cookie: {", "  cookies: {", "12:3: session.cookies: unknown key"),
        TypicalValueError("{ secure: false }", "{ secur: false }", "12:13: session.cookie.secur: unknown key"),
        TypicalValueError("signIn:", "signin:", "7:5: upstreams.api.signin: unknown key"),
        TypicalValueError("apiToken: {", "apitoken: {", "6:5: upstreams.api.apitoken: unknown key"),
        TypicalValueError(
            "127.0.0.1:0\n", "127.0.0.1:9464\nadmin: { adress: \"127.0.0.1:1\" }\n",
            "3:10: admin.adress: unknown key"),
        TypicalValueError(
            "session:\n  idleTimeout: 15m", "session:\n  store: sqlite\n  secrets: [\(secret)]\n  sqllite: { path: a }",
            "13:3: session.sqllite: unknown key"),
        TypicalValueError(
            "session:\n  idleTimeout: 15m",
            "session:\n  store: valkey\n  secrets: [\(secret)]\n  valky: { addresses: [\"a:1\"] }",
            "13:3: session.valky: unknown key"),
    ]

    /// A key with a misspelled name.
    static let keys = [
        TypicalValueError("address: 127", "adress: 127", "2:5: listeners.0.adress: unknown key"),
        TypicalValueError(
            "{ value: demo }", "{ valeu: demo }", "6:17: upstreams.api.apiToken.valeu: unknown key"),
        TypicalValueError(
            "requiresAuthorization: true", "requireAuthorization: true",
            "24:5: routes.1.requireAuthorization: unknown key"),
        TypicalValueError(
            "    targets: [\"http://127.0.0.1:9000\"]", "    target: [\"http://127.0.0.1:9000\"]",
            "5:5: upstreams.api.target: unknown key"),
        TypicalValueError("{ path: /auth }", "{ pth: /auth }", "7:15: upstreams.api.signIn.pth: unknown key"),
        TypicalValueError(
            "idleTimeout: 15m", "idleTimeout: 9h\n  absoluteTimout: 10h",
            "12:3: session.absoluteTimout: unknown key"),
        TypicalValueError("session:", "limits: { haed: 30KiB }\nsession:", "10:11: limits.haed: unknown key"),
        TypicalValueError(
            "session:\n  idleTimeout: 15m",
            "session:\n  valkey: { addresses: [\"a:1\", \"b:1\"], sentinelPrimry: a, sentinelPassword: b }",
            "11:40: session.valkey.sentinelPrimry: unknown key"),
    ]

    /// An existing key with an invalid value.
    static let values = [
        TypicalValueError(
            "session:\n  idleTimeout: 15m", "session:\n  store: sqlite\n  secrets: [short]\n  sqlite: { path: a }",
            "12:13: session.secrets.0: must be at least 32 bytes long"),
        TypicalValueError(
            "session:\n  idleTimeout: 15m", "session:\n  store: sqlite\n  secrets: short\n  sqlite: { path: a }",
            "12:12: session.secrets: must be a list"),
        TypicalValueError(
            "{ value: demo }", "{ value: \"\" }", "6:24: upstreams.api.apiToken.value: must not be empty"),
        TypicalValueError(
            "{ value: demo }", "{ valueFile: nowhere }",
            "6:28: upstreams.api.apiToken.valueFile: must be an existing file"
        ),
        TypicalValueError(
            "127.0.0.1:0", "127.0.0.1:0\nadmin: { token: short }", "3:17: admin.token: must be at least 16"),
        TypicalValueError("\"http://127.0.0.1:9000\"", "\"ftp://a\"", "5:15: upstreams.api.targets.0: "),
        TypicalValueError(
            "address: 127.0.0.1:0", "address: here", "2:14: listeners.0.address: must be host:port, not \"here\""),
        TypicalValueError("secure: false", "secure: no", "12:21: session.cookie.secure: must be true or false"),
        TypicalValueError("methods: [GET]", "methods: GET", "15:14: routes.0.methods: must be a list"),
        TypicalValueError("signIn: { path: /auth }", "signIn: /auth", "7:5: upstreams.api.signIn: must be a section"),
        TypicalValueError(
            "session:", "accounts: { upstream: apu }\nsession:",
            "10:23: accounts.upstream: unknown upstream \"apu\""),
    ]

    private static let secret = String(repeating: "0123456789abcdef", count: 3)
}
