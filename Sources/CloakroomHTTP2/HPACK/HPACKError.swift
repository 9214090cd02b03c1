/// A header block that cannot be decoded. It ends the connection with COMPRESSION_ERROR, because the dynamic table is
/// unknown afterwards (RFC 9113 §4.3).
public enum HPACKError: Error, Sendable, Hashable {
    /// An index beyond the tables, an integer or string that is invalid or does not end in the block, or a table size
    /// update that is not allowed (RFC 7541 §2.3.3, §4.2, §5.1, §5.2).
    case compression
}
