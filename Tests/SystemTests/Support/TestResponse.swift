import Foundation

/// An HTTP response as a client receives it.
struct TestResponse: Sendable {
    var status: Int
    var fields: [(name: String, value: String)]
    var body: String

    /// Parses the output of `curl -i`. Interim responses are skipped.
    init(printed text: String) throws {
        var rest = text[...]
        repeat {
            guard let end = rest.range(of: "\r\n\r\n") else { throw Malformed(text: text) }
            let lines = rest[..<end.lowerBound].components(separatedBy: "\r\n")
            let words = lines[0].split(separator: " ")
            guard words.count >= 2, words[0].hasPrefix("HTTP/"), let status = Int(words[1]) else {
                throw Malformed(text: text)
            }
            self.status = status
            fields = lines.dropFirst().map { line in
                let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
                return (String(parts[0]), parts.count > 1 ? parts[1].trimmingCharacters(in: .whitespaces) : "")
            }
            rest = rest[end.upperBound...]
        } while status < 200
        body = String(rest)
    }

    init(status: Int, fields: [(name: String, value: String)], body: String) {
        self.status = status
        self.fields = fields
        self.body = body
    }

    func values(of name: String) -> [String] {
        fields.filter { $0.name.lowercased() == name.lowercased() }.map(\.value)
    }

    func json<T: Decodable>(as type: T.Type = T.self) throws -> T {
        try JSONDecoder().decode(type, from: Data(body.utf8))
    }

    /// The problem document in the body; `nil` with another content type.
    var problem: ProblemBody? {
        guard values(of: "Content-Type") == ["application/problem+json"] else { return nil }
        return try? json()
    }

    /// The value of the cookie that the response sets.
    var cookie: String? {
        guard let field = values(of: "Set-Cookie").first, let start = field.firstIndex(of: "=") else { return nil }
        let value = field[field.index(after: start)...].prefix { $0 != ";" }
        return value.isEmpty ? nil : String(value)
    }

    /// All of the response except the field line that sets the ticket.
    var textWithoutTicket: String {
        fields.filter { $0.name.lowercased() != "set-cookie" }.map { "\($0.name): \($0.value)\n" }.joined() + body
    }

    struct Malformed: Error {
        let text: String
    }
}

/// A problem document (RFC 9457) with the gateway's own members.
struct ProblemBody: Decodable, Equatable {
    var type: String
    var title: String
    var status: Int
    var detail: String
    var code: String
    var reason: String?
    var request_id: String
}

/// The body of a sign-in response and of `GET /auth`.
struct WhoAmI: Decodable, Equatable {
    struct User: Decodable, Equatable {
        var email: String
        var name: String
    }

    struct Session: Decodable, Equatable {
        var createdAt: String
        var expiresAt: String
        var idleTimeoutSeconds: Int
    }

    var user: User
    var session: Session
}
