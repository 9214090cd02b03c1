import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("The secrets of a login")
struct LoginSecretsTests {
    @Test("Identity rule 1: every login has its own secrets, of 32 bytes each")
    func everyLoginHasItsOwnSecrets() {
        var generator = SystemRandomNumberGenerator()
        var seen: Set<[UInt8]> = []
        for _ in 0..<100 {
            let secrets = LoginSecrets(using: &generator)
            for value in [secrets.state, secrets.nonce, secrets.verifier] {
                expect(value.count, equals: 32)
                expect(seen.insert(value).inserted)
            }
        }
    }

    @Test("RFC 7636 Appendix B: the challenge is that of the example")
    func challenge() throws {
        let verifier = try require(Base64URL.decode("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".utf8))
        var generator = FixedGenerator(bytes: Array(repeating: 0, count: 64) + verifier)
        let secrets = LoginSecrets(using: &generator)
        expect(secrets.verifier, equals: verifier)
        expect(secrets.challenge, equals: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")
    }

    @Test("Printing shows no secret")
    func redaction() {
        let secrets = LoginFixture.secrets(1)
        expect("\(secrets)", equals: "LoginSecrets")
        expect("\(LoginFixture.login(secrets))", equals: "PendingLogin")
    }

    private struct FixedGenerator: RandomNumberGenerator {
        var bytes: [UInt8]

        mutating func next() -> UInt64 {
            defer { bytes.removeFirst(min(8, bytes.count)) }
            return bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
        }
    }
}
