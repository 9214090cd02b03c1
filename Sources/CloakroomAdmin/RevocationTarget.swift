package import CloakroomCore
package import Foundation

/// The sessions that an operator wants to end.
package enum RevocationRequest: Equatable {
    /// All sessions of an account, identified by the e-mail address entered at sign-in or the upstream's user id.
    case user(String)
    /// One session of any account.
    case session(SessionID)

    /// The error of a request. Contains nothing from the request.
    package struct InputError: Error, Equatable {
        /// Whether the body cannot be parsed (400); otherwise its content is invalid (422).
        let isMalformed: Bool
        let detail: String
    }

    /// Parses a JSON object with exactly one member, `user` or `session`.
    package init(json: Data) throws(InputError) {
        let document: Any
        do {
            // Foundation would also accept UTF-16 and UTF-32, where every other byte of plain text is zero.
            guard !json.contains(0) else { throw Self.notJSON }
            document = try JSONSerialization.jsonObject(with: json, options: [.fragmentsAllowed])
        } catch {
            throw Self.notJSON
        }
        // Further members could request more than the endpoint does.
        guard let members = document as? [String: Any], members.count == 1, let (name, value) = members.first,
            let text = value as? String, !Self.repeatsMember(json)
        else { throw Self.unclear }
        switch name {
        case "user":
            guard (1...255).contains(text.utf8.count) else {
                throw InputError(
                    isMalformed: false,
                    detail: "user must be the e-mail address entered at sign-in, or the upstream's user id.")
            }
            self = .user(text)
        case "session":
            guard let id = SessionID(text) else {
                throw InputError(isMalformed: false, detail: "session must be the 16 hexadecimal digits shown in logs.")
            }
            self = .session(id)
        default: throw Self.unclear
        }
    }

    /// Whether an object with one text member contains the member more than once: Foundation keeps only one of two
    /// members with the same name. An object with one member has exactly four unescaped quotation marks.
    private static func repeatsMember(_ json: Data) -> Bool {
        var quotationMarks = 0
        var isEscaped = false
        for byte in json {
            if !isEscaped, byte == UInt8(ascii: "\"") { quotationMarks += 1 }
            isEscaped = !isEscaped && byte == UInt8(ascii: "\\")
        }
        return quotationMarks > 4
    }

    private static let notJSON = InputError(isMalformed: true, detail: "The body is not JSON.")
    private static let unclear = InputError(
        isMalformed: false,
        detail: #"Send {"user": "e-mail or user id"} or {"session": "16 hexadecimal digits"}, nothing else."#)
}
