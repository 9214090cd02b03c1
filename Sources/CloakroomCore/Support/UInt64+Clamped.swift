extension UInt64 {
    /// The sum, at most the greatest value. For times: `.max` means never.
    @inlinable
    package func addingClamped(_ other: UInt64) -> UInt64 {
        let (sum, isOverflow) = addingReportingOverflow(other)
        return isOverflow ? .max : sum
    }
}
