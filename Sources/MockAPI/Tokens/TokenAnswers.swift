/// The answer to `POST /auth` and `POST /auth/refresh`.
struct TokenPair: Encodable, Redacted {
    let accessToken: String
    let refreshToken: String
}

/// The answer to `POST /api/v1/signin`, the older dialect: nothing to refresh with, and no word on how long it lasts.
struct AccessTokenOnly: Encodable, Redacted {
    let accessToken: String
}
