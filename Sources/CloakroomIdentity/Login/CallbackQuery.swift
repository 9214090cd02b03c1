package import CloakroomCore

/// The query of a callback: the authorization response (RFC 6749 §4.1.2, RFC 9207 §2).
///
/// Any page can make a browser request the callback with any query, so everything in it is untrusted.
package struct CallbackQuery: Sendable, Equatable, Unprintable {
    /// The maximum length of a query in bytes.
    package static let maxLength = 4_096
    /// The maximum length of a code in bytes.
    package static let maxCode = 2_048
    /// The maximum length of an error code and of an issuer in bytes.
    static let maxText = 512

    /// What the provider decided.
    package enum Outcome: Sendable, Equatable {
        /// A code, to be exchanged for tokens.
        case code(Secret)
        /// An error code (RFC 6749 §4.1.2.1): printable ASCII. Never shown to users.
        case error(String)
    }

    /// Why a query was rejected.
    package enum ParseError: String, Error, Sendable, CaseIterable {
        /// Longer than ``maxLength``.
        case tooLong
        /// An invalid escape, or text that is not UTF-8.
        case encoding
        /// A parameter appears more than once, known or unknown (RFC 6749 §3.1).
        case duplicate
        /// No state, or one that was not made by a gateway.
        case state
        /// Neither a code nor an error, or both.
        case outcome
        /// The code is empty, too long or not visible ASCII.
        case code
        /// The error is empty, too long or has characters that are not allowed.
        case error
        /// The issuer is empty, too long or not visible ASCII.
        case issuer
    }

    /// The bytes of the state.
    package let state: [UInt8]
    /// What the provider decided.
    package let outcome: Outcome
    /// The value of `iss`; `nil` if absent.
    package let issuer: String?

    /// Parses a query without its question mark. Parameters of other names are ignored, except that none may appear
    /// twice.
    package init(_ query: [UInt8]) throws(ParseError) {
        guard query.count <= Self.maxLength else { throw .tooLong }
        guard let fields = try Self.fields(query) else { throw .encoding }
        guard let text = fields["state"], let state = Base64URL.decode(text.utf8),
            state.count == LoginSecrets.byteCount
        else { throw .state }
        self.state = state
        issuer = fields["iss"]
        switch (fields["code"], fields["error"]) {
        case (let code?, nil):
            guard (1...Self.maxCode).contains(code.utf8.count), code.utf8.allSatisfy({ (0x21...0x7e).contains($0) })
            else { throw .code }
            outcome = .code(Secret(code))
        case (nil, let error?):
            // RFC 6749 §4.1.2.1: %x20-21 / %x23-5B / %x5D-7E.
            guard (1...Self.maxText).contains(error.utf8.count),
                error.utf8.allSatisfy({ (0x20...0x7e).contains($0) && $0 != 0x22 && $0 != 0x5c })
            else { throw .error }
            outcome = .error(error)
        case (nil, nil), (_?, _?): throw .outcome
        }
        if let issuer {
            guard (1...Self.maxText).contains(issuer.utf8.count), issuer.utf8.allSatisfy({ (0x21...0x7e).contains($0) })
            else { throw .issuer }
        }
    }

    /// The parameters; `nil` for an invalid escape. ``FormURLEncodedBody`` rejects duplicates with the same result, so
    /// these are searched first, in encoded form.
    private static func fields(_ query: [UInt8]) throws(ParseError) -> [JSONMemberName: String]? {
        if let fields = FormURLEncodedBody.read(query) { return fields }
        var names: Set<[UInt8]> = []
        for pair in query.split(separator: UInt8(ascii: "&")) {
            let name = Array(pair.prefix { $0 != UInt8(ascii: "=") })
            guard names.insert(name).inserted else { throw .duplicate }
        }
        return nil
    }
}
