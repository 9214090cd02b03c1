import CloakroomConfig
import Foundation
import Testing

/// One mistake that people make, and the one line that it has to be.
struct TypicalValueError: Sendable, CustomTestStringConvertible {
    let piece: String
    let change: String
    /// How the line begins, behind the name of the file.
    let line: String

    init(_ piece: String, _ change: String, _ line: String) {
        self.piece = piece
        self.change = change
        self.line = line
    }

    var testDescription: String { "\(piece) → \(change)" }
}

@Suite("One mistake, one line")
struct OneConfigDiagnosticTests {
    @Test("A mistake is one line, however much depends on what is wrong", arguments: sections + keys + values)
    func oneLine(_ valueError: TypicalValueError) throws {
        let lines = try ConfigFixture.valueErrors(replacing: valueError.piece, by: valueError.change)
        #expect(lines.count == 1, "\(lines)")
        #expect(lines.first?.hasPrefix("cloakroom.yaml:\(valueError.line)") == true, "\(lines)")
    }

    /// A section with a misspelled name.
    static let sections = [
        TypicalValueError("upstreams:", "upstream:", "3:1: upstream: there is no such key"),
        TypicalValueError("listeners:", "listener:", "1:1: listener: there is no such key"),
        TypicalValueError("session:", "sesion:", "10:1: sesion: there is no such key"),
        TypicalValueError("session:", "sessions:", "10:1: sessions: there is no such key"),
        TypicalValueError("routes:", "route:", "13:1: route: there is no such key"),
        TypicalValueError("  cookie: {", "  cookies: {", "12:3: session.cookies: there is no such key"),
        TypicalValueError("{ secure: false }", "{ secur: false }", "12:13: session.cookie.secur: there is no such key"),
        TypicalValueError("signIn:", "signin:", "7:5: upstreams.api.signin: there is no such key"),
        TypicalValueError("apiToken: {", "apitoken: {", "6:5: upstreams.api.apitoken: there is no such key"),
        TypicalValueError(
            "127.0.0.1:0\n", "127.0.0.1:9464\nadmin: { adress: \"127.0.0.1:1\" }\n",
            "3:10: admin.adress: there is no such key"),
        TypicalValueError(
            "session:\n  idleTimeout: 15m", "session:\n  store: sqlite\n  secrets: [\(secret)]\n  sqllite: { path: a }",
            "13:3: session.sqllite: there is no such key"),
        TypicalValueError(
            "session:\n  idleTimeout: 15m",
            "session:\n  store: valkey\n  secrets: [\(secret)]\n  valky: { addresses: [\"a:1\"] }",
            "13:3: session.valky: there is no such key"),
    ]

    /// A key with a misspelled name.
    static let keys = [
        TypicalValueError("address: 127", "adress: 127", "2:5: listeners.0.adress: there is no such key"),
        TypicalValueError(
            "{ value: demo }", "{ valeu: demo }", "6:17: upstreams.api.apiToken.valeu: there is no such key"),
        TypicalValueError(
            "requiresAuthorization: true", "requireAuthorization: true",
            "24:5: routes.1.requireAuthorization: there is no such key"),
        TypicalValueError(
            "    targets: [\"http://127.0.0.1:9000\"]", "    target: [\"http://127.0.0.1:9000\"]",
            "5:5: upstreams.api.target: there is no such key"),
        TypicalValueError("{ path: /auth }", "{ pth: /auth }", "7:15: upstreams.api.signIn.pth: there is no such key"),
        TypicalValueError(
            "idleTimeout: 15m", "idleTimeout: 9h\n  absoluteTimout: 10h",
            "12:3: session.absoluteTimout: there is no such key"),
        TypicalValueError(
            "session:", "limits: { target: 20KiB, haed: 30KiB }\nsession:", "10:26: limits.haed: there is no such key"),
        TypicalValueError(
            "session:\n  idleTimeout: 15m",
            "session:\n  valkey: { addresses: [\"a:1\", \"b:1\"], sentinelPrimry: a, sentinelPassword: b }",
            "11:40: session.valkey.sentinelPrimry: there is no such key"),
    ]

    /// A key that is there, with a value that is no good.
    static let values = [
        TypicalValueError(
            "session:\n  idleTimeout: 15m", "session:\n  store: sqlite\n  secrets: [short]\n  sqlite: { path: a }",
            "12:13: session.secrets.0: is shorter than 32 bytes"),
        TypicalValueError(
            "session:\n  idleTimeout: 15m", "session:\n  store: sqlite\n  secrets: short\n  sqlite: { path: a }",
            "12:12: session.secrets: expects a list"),
        TypicalValueError("{ value: demo }", "{ value: \"\" }", "6:24: upstreams.api.apiToken.value: is empty"),
        TypicalValueError(
            "{ value: demo }", "{ valueFile: nowhere }", "6:28: upstreams.api.apiToken.valueFile: there is no such file"
        ),
        TypicalValueError(
            "127.0.0.1:0", "127.0.0.1:0\nadmin: { token: short }", "3:17: admin.token: is shorter than 16"),
        TypicalValueError("\"http://127.0.0.1:9000\"", "\"ftp://a\"", "5:15: upstreams.api.targets.0: "),
        TypicalValueError(
            "address: 127.0.0.1:0", "address: here", "2:14: listeners.0.address: \"here\" is not host:port"),
        TypicalValueError("secure: false", "secure: no", "12:21: session.cookie.secure: \"no\" is neither"),
        TypicalValueError("methods: [GET]", "methods: GET", "15:14: routes.0.methods: expects a list"),
        TypicalValueError("signIn: { path: /auth }", "signIn: /auth", "7:5: upstreams.api.signIn: expects keys"),
        TypicalValueError(
            "session:", "accounts: { upstream: apu }\nsession:",
            "10:23: accounts.upstream: there is no upstream \"apu\""),
    ]

    private static let secret = String(repeating: "0123456789abcdef", count: 3)
}
