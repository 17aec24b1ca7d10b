"""UpdateFeatures (KIP-584, KIP-1022): raise or lower finalized feature levels."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError
from kbroker.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kbroker.replies import Reply, then

_FAILED = "The update failed for all features since the following feature had an error: "


def handle(context: RequestContext, request: UpdateFeaturesRequest) -> Reply[UpdateFeaturesResponse]:
    """All updates or none."""
    try:
        updated = context.node.quorum.update_features(request)
    except ApiError as error:
        raise ApiError(error.code, f"{_FAILED}{error.message}") from error
    response = UpdateFeaturesResponse(throttle_time_ms=context.throttle_time_ms, error_message=None)
    if context.api_version <= 1:
        response.results = [
            UpdateFeaturesResponse.UpdatableFeatureResult(feature=each.feature, error_message="NONE")
            for each in request.feature_updates
        ]
    return then(updated, lambda _: response)


def error_response(context: RequestContext, _request: UpdateFeaturesRequest, error: ApiError) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(
        throttle_time_ms=context.throttle_time_ms, error_code=error.code, error_message=error.message
    )
