import CloakroomCore
import TestSupport

@testable import CloakroomIdentity

extension FuzzTarget {
    /// An upstream's response to a sign-in or a token refresh: every accepted token must be valid in a header field.
    static let tokenResponses = FuzzTarget(
        "token-answers",
        words: [
            "{\"accessToken\":\"", "\"refreshToken\":", "\"expires_in\":", "null", "\"\"", "3600", "\"3600\"", "-1",
            "0",
            "1e30", "1e400", "\\r\\n", "\\u0000", "é", "a.eyJleHAiOjE4MDAwMDAwMDB9.c", ".", "}", ",", "{", "[",
        ],
        times: [
            LinearTime(
                JSONTexts.families + [
                    .repeated("one long token", "a", prefix: #"{"accessToken":""#, suffix: #""}"#),
                    .repeated("a token of dots", ".", prefix: #"{"accessToken":""#, suffix: #""}"#),
                    .repeated("a long payload", "AAAA", prefix: #"{"accessToken":"a."#, suffix: #".c"}"#),
                ]
            ) { _ = TokenResponse.read($0, configuration: Tokens.configurations[0], now: Tokens.now) }
        ]
    ) { bytes throws(Violation) in
        for configuration in Tokens.configurations {
            guard let tokens = TokenResponse.read(bytes, configuration: configuration, now: Tokens.now) else {
                continue
            }
            try require(
                tokens.authorization.bytes.starts(with: "Bearer ".utf8), "a value that does not begin with its scheme")
            for token in [Array(tokens.authorization.bytes.dropFirst(7)), tokens.refreshToken?.bytes].compactMap(\.self)
            {
                try require(
                    (1...16_384).contains(token.count) && token.allSatisfy { (0x21...0x7e).contains($0) },
                    "a token that is invalid in a header field")
            }
            try require(
                tokens.accessTokenExpiresAt.map { $0 >= Tokens.now } ?? true,
                "a token that expired before it was issued")
            try require(tokens.issuedAt == Tokens.now, "another time")
        }
    }

    /// An upstream's user document: no token may reach the client in it, in any spelling.
    static let userDocuments = FuzzTarget(
        "user-documents",
        words: [
            "{", "}", "\"a\":", ",", "\"", "access/token/0123456789", "access\\/token\\/0123456789",
            "refresh.0123456789",
            "\\u0072efresh.0123456789", "acce", "\\", "\\u0061", " ", "\n", "[", "]", "1.0", "1e2", "é",
        ],
        times: [
            LinearTime(
                JSONTexts.families + [
                    .repeated("beginnings of a token", "a", prefix: #"{"a":""#, suffix: #""}"#)
                ],
                // Longer documents are not stored.
                shortest: 1_000
            ) { bytes in
                // The token is as long as the document, and nearly matches at every position.
                let token = Array(repeating: UInt8(ascii: "a"), count: bytes.count / 2) + [UInt8(ascii: "b")]
                let authorization = Secret(bytes: Array("Bearer ".utf8) + token)
                _ = UserDocument.read(
                    bytes, excluding: [TokenSet(authorization: authorization, obtainedAt: Tokens.now)])
            }
        ]
    ) { bytes throws(Violation) in
        guard let document = UserDocument.read(bytes, excluding: [Tokens.tokens]) else { return }
        try require(document.count <= 16_384, "a document that is too long")
        guard let value = JSONValue(document: bytes), case .object = value else {
            throw Violation("a document that is not a JSON object")
        }
        try require(JSONValue(document: document) == value, "a document with another value")
        try require(!document.contains { $0 < 0x20 }, "a document with line breaks")
        for text in Tokens.texts(value) {
            for token in ["access/token/0123456789", "refresh.0123456789"] {
                try require(!text.contains(token), "a document with a token in it")
            }
        }
    }
}

private enum Tokens {
    static let now = WallTime(seconds: 1_700_000_000)
    static let configurations = [
        IdentityEndpointConfiguration(path: "/"),
        IdentityEndpointConfiguration(
            path: "/", accessToken: "data.access_token", refreshToken: "data.refresh_token", expiresIn: "expires_in"),
    ]
    static let tokens = TokenSet(
        authorization: Secret("Bearer access/token/0123456789"), refreshToken: Secret("refresh.0123456789"),
        obtainedAt: now)

    /// Every string in a value, with the names of members.
    static func texts(_ value: JSONValue) -> [String] {
        switch value {
        case .string(let text): [text]
        case .array(let members): members.flatMap(texts)
        case .object(let members): members.flatMap { [$0.text] + texts($1) }
        default: []
        }
    }
}
