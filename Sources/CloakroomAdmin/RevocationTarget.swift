package import CloakroomCore
package import Foundation

/// Whose sessions an operator wants to end.
package enum RevocationRequest: Equatable {
    /// All of an account's: the typed e-mail address, or the upstream's user id.
    case user(String)
    /// One, whoever's it is.
    case session(SessionID)

    /// What is wrong with a request. Nothing of the request stands in it.
    package struct InputError: Error, Equatable {
        /// It cannot be read (400); otherwise it can be, and makes no sense (422).
        let isMalformed: Bool
        let detail: String
    }

    /// Reads a JSON object with exactly one member, `user` or `session`.
    package init(json: Data) throws(InputError) {
        let document: Any
        do {
            // Foundation would also read UTF-16 and UTF-32, where every other byte of plain text is zero.
            guard !json.contains(0) else { throw Self.notJSON }
            document = try JSONSerialization.jsonObject(with: json, options: [.fragmentsAllowed])
        } catch {
            throw Self.notJSON
        }
        // More members than one might mean that more was wanted than would be done.
        guard let members = document as? [String: Any], members.count == 1, let (name, value) = members.first,
            let text = value as? String, !Self.repeatsMember(json)
        else { throw Self.unclear }
        switch name {
        case "user":
            guard (1...255).contains(text.utf8.count) else {
                throw InputError(
                    isMalformed: false,
                    detail: "user is the e-mail address that was typed at sign-in, or the upstream's user id.")
            }
            self = .user(text)
        case "session":
            guard let id = SessionID(text) else {
                throw InputError(isMalformed: false, detail: "session is the 16 hexadecimal digits that logs show.")
            }
            self = .session(id)
        default: throw Self.unclear
        }
    }

    /// Whether an object of one member with a text says it more than once: Foundation keeps only one of two members with
    /// the same name. Once, there are four quotation marks that are not escaped.
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
        detail: #"Send {"user": "e-mail or user id"} or {"session": "16 hexadecimal digits"}, and nothing more."#)
}
