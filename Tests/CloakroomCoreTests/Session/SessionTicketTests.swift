import CloakroomCore
import TestSupport
import Testing

@Suite("A session's ticket")
struct SessionTicketTests {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    private func ticket() -> SessionTicket {
        var generator = SystemRandomNumberGenerator()
        return SessionTicket(using: &generator)
    }

    private func read(_ text: some StringProtocol) -> SessionTicket? {
        SessionTicket(cookieValue: Array(text.utf8).span)
    }

    @Test("is restored unchanged from its cookie")
    func roundTrip() {
        for _ in 0..<100 {
            let ticket = ticket()
            let value = ticket.cookieValue
            expect(value.utf8.count, equals: SessionTicket.characterCount)
            expect(value.utf8.allSatisfy(Self.alphabet.contains))
            expect(read(value), equals: ticket)
        }
    }

    @Test("is hashed by the bytes that its cookie encodes")
    func bytesAreInOrder() throws {
        // Base64url of the bytes 0 to 31.
        let value = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
        let ticket = try require(read(value))
        expect(ticket.withBytes(Array.init), equals: Array(0..<32))
        expect(ticket.bytes, equals: Array(0..<32))
        expect(ticket.cookieValue, equals: value)
    }

    @Test(
        "Rule 20: is parsed only from its canonical form",
        arguments: [
            "", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+",
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwd\u{0}h8", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHé",
            String(repeating: "A", count: 100_000),
        ])
    func otherSpellings(text: String) {
        expect(read(text), equals: nil)
    }

    @Test("differs from one with any other bit")
    func equality() throws {
        let value = String(repeating: "A", count: 43)
        let zero = try require(read(value))
        for index in value.indices {
            let other = try require(read(value[..<index] + "E" + value[value.index(after: index)...]))
            expect(other != zero)
        }
        expect(SessionKey(1, 2, 3, 4) != SessionKey(1, 2, 3, 5))
        expect(SessionKey(1, 2, 3, 4) != SessionKey(0, 2, 3, 4))
        expect(SessionKey(1, 2, 3, 4), equals: SessionKey(1, 2, 3, 4))
    }

    @Test("Rule 22: is never printed")
    func redacted() {
        let ticket = ticket()
        var dumped = ""
        dump(ticket, to: &dumped)
        for text in ["\(ticket)", String(reflecting: ticket), String(describing: [ticket]), dumped] {
            expect(!text.contains(ticket.cookieValue))
            expect(!text.contains("word"))
        }
    }
}
