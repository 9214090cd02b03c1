import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("The query of a callback")
struct CallbackQueryTests {
    private static let state = Base64URL.encode(LoginFixture.secrets(1).state)

    private func read(_ query: String) throws(CallbackQuery.ParseError) -> CallbackQuery {
        try CallbackQuery(Array(query.replacing("#", with: Self.state).utf8))
    }

    @Test("has a code or an error, and possibly an issuer; others are ignored")
    func good() throws {
        let query = try read("state=#&code=a%2Fb&iss=https%3A%2F%2Fid.example.com&session_state=x&x=")
        expect(query.state, equals: LoginFixture.secrets(1).state)
        expect(query.outcome, equals: .code(Secret("a/b")))
        expect(query.issuer, equals: "https://id.example.com")
        let failed = try read("error=access_denied&error_description=%3Cscript%3E&state=#")
        expect(failed.outcome, equals: .error("access_denied"))
        expect(failed.issuer, equals: nil)
    }

    @Test(
        "Identity rule 4: everything else is rejected",
        arguments: [
            ("", CallbackQuery.ParseError.state), ("code=a", .state), ("state=&code=a", .state),
            ("state=short&code=a", .state), ("state=#A&code=a", .state), ("state=#%3D&code=a", .state),
            ("state=%20#&code=a", .state), ("state=#", .outcome), ("state=#&code=a&error=b", .outcome),
            ("state=#&code=&error=", .outcome), ("state=#&code=", .code), ("state=#&code=a%20b", .code),
            ("state=#&code=a+b", .code), ("state=#&code=%C3%A4", .code), ("state=#&code=a%0D%0A", .code),
            ("state=#&error=", .error), ("state=#&error=a%22", .error), ("state=#&error=%5C", .error),
            ("state=#&error=%00", .error), ("state=#&code=a&iss=", .issuer), ("state=#&code=a&iss=%20", .issuer),
            ("state=#&code=a&code=a", .duplicate), ("state=#&code=a&code=b", .duplicate),
            ("state=#&state=#&code=a", .duplicate), ("state=#&code=a&iss=a&iss=a", .duplicate),
            ("state=#&code=a&x=1&x=2", .duplicate), ("state=#&code=a&%63ode=b", .encoding),
            ("state=#&code=%", .encoding), ("state=#&code=%4", .encoding), ("state=#&code=%zz", .encoding),
            ("state=#&code=%FF", .encoding),
        ])
    func rejected(query: String, error: CallbackQuery.ParseError) {
        #expect(throws: error) { try read(query) }
    }

    @Test("A query is at most 4 KiB and a code at most 2 KiB long")
    func limits() throws {
        let code = String(repeating: "c", count: 2_048)
        try expect(read("state=#&code=\(code)").outcome, equals: .code(Secret(code)))
        #expect(throws: CallbackQuery.ParseError.code) { try read("state=#&code=\(code)c") }
        let start = "state=#&code=a&x=".replacing("#", with: Self.state)
        let filler = String(repeating: "x", count: 4_096 - start.utf8.count)
        _ = try read(start + filler)
        #expect(throws: CallbackQuery.ParseError.tooLong) { try read(start + filler + "x") }
    }

    @Test("Any bytes are rejected or give values within their limits")
    func fuzzed() {
        var generator = CountingGenerator(state: 3)
        let good = Array("state=\(Self.state)&code=abc&iss=https%3A%2F%2Fa".utf8)
        let tokens = ["&", "=", "%", "+", "code", "state", "error", "iss", "%00", "\u{0}", "ä"].map { Array($0.utf8) }
        for _ in 0..<5_000 {
            var bytes = good
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                let index = Int.random(in: 0...bytes.count, using: &generator)
                if Bool.random(using: &generator), index < bytes.count {
                    bytes.remove(at: index)
                } else if let token = tokens.randomElement(using: &generator) {
                    bytes.insert(contentsOf: token, at: index)
                }
            }
            guard let query = try? CallbackQuery(bytes) else { continue }
            expect(query.state.count, equals: 32)
            if case .code(let code) = query.outcome { expect((1...2_048).contains(code.bytes.count)) }
        }
    }
}

@Suite("The check of a callback")
struct CallbackCheckTests {
    private let expected = CallbackCheck.Expectation(
        identity: "company", issuer: LoginFixture.issuer, announcesIssuer: false)
    private let login = LoginFixture.login(LoginFixture.secrets(1))

    private func failure(
        _ query: String, login: PendingLogin?, expecting expected: CallbackCheck.Expectation
    ) throws -> LoginFailure? {
        let state = Base64URL.encode(LoginFixture.secrets(1).state)
        let query = try CallbackQuery(Array("state=\(state)&\(query)".utf8))
        do throws(LoginFailure) {
            _ = try CallbackCheck.code(of: query, login: login, expecting: expected)
            return nil
        } catch {
            return error
        }
    }

    @Test("returns the code of a login that this browser began")
    func good() throws {
        try expect(failure("code=a", login: login, expecting: expected), equals: nil)
        try expect(failure("code=a&iss=https%3A%2F%2Fid.example.com", login: login, expecting: expected), equals: nil)
        var announcing = expected
        announcing.announcesIssuer = true
        try expect(failure("code=a&iss=https%3A%2F%2Fid.example.com", login: login, expecting: announcing), equals: nil)
    }

    @Test("Identity rule 5: a mix-up is rejected, errors included")
    func mixUpIsRefused() throws {
        for outcome in ["code=a", "error=access_denied"] {
            for issuer in [
                "https%3A%2F%2Fevil.example", "https%3A%2F%2Fid.example.com%2F", "https%3A%2F%2FID.example.com",
            ] {
                let failure = try failure("\(outcome)&iss=\(issuer)", login: login, expecting: expected)
                expect(failure?.reason, equals: .issuerMismatch)
                expect(failure?.effects.code, equals: .loginFailed)
            }
            var announcing = expected
            announcing.announcesIssuer = true
            try expect(failure(outcome, login: login, expecting: announcing)?.reason, equals: .issuerMissing)
        }
    }

    @Test("A login of one identity is not completed at the callback of another, or after its issuer changed")
    func otherIdentity() throws {
        var other = expected
        other.identity = "partner"
        try expect(failure("code=a", login: login, expecting: other)?.reason, equals: .otherIdentity)
        other = expected
        other.issuer = "https://new.example.com"
        try expect(failure("code=a", login: login, expecting: other)?.reason, equals: .otherIdentity)
    }

    @Test("Identity rule 4: without a login the response is login_expired, whatever the query has")
    func noLogin() throws {
        for outcome in ["code=a", "error=access_denied"] {
            let failure = try failure(outcome, login: nil, expecting: expected)
            expect(failure?.reason, equals: .noPendingLogin)
            expect(failure?.effects.code, equals: .loginExpired)
            expect(failure?.effects.code.status, equals: 400)
        }
    }

    @Test(
        "Identity rule 10: error codes of providers have a response each",
        arguments: [
            ("access_denied", ProblemCode.loginRefused, 403), ("login_required", .loginRefused, 403),
            ("interaction_required", .loginRefused, 403), ("temporarily_unavailable", .identityUnavailable, 503),
            ("server_error", .identityUnavailable, 503), ("invalid_scope", .loginFailed, 502),
            ("unauthorized_client", .loginFailed, 502), ("anything", .loginFailed, 502),
            ("unmet_authentication_requirements", .stepUpFailed, 403),
        ])
    func errors(code: String, problem: ProblemCode, status: Int) throws {
        let failure = try failure("error=\(code)", login: login, expecting: expected)
        expect(failure?.effects.code, equals: problem)
        expect(failure?.effects.code.status, equals: status)
        expect(failure?.providerCode, equals: code)
    }
}
